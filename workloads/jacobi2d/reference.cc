// One sweep in double precision. The weight is the single-precision constant of the kernels, 0.2f,
// so that the difference to the reference is rounding alone.
extern "C" void jacobi2d_reference(int rows, int columns, const double* in, double* out) {
    for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
            const int at = i * columns + j;
            if (i == 0 || j == 0 || i == rows - 1 || j == columns - 1)
                out[at] = in[at];
            else
                out[at] =
                    0.2f * (in[at] + in[at - 1] + in[at + 1] + in[at - columns] + in[at + columns]);
        }
    }
}
