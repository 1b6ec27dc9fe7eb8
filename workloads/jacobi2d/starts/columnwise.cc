extern "C" void jacobi2d(int rows, int columns, const float* in, float* out) {
    for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < rows; ++i) {
            if (i == 0 || j == 0 || i == rows - 1 || j == columns - 1)
                out[i * columns + j] = in[i * columns + j];
            else
                out[i * columns + j] = 0.2f * (in[i * columns + j] + in[i * columns + j - 1] +
                                               in[i * columns + j + 1] + in[(i - 1) * columns + j] +
                                               in[(i + 1) * columns + j]);
        }
    }
}
