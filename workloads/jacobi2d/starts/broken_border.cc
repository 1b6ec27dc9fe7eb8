extern "C" void jacobi2d(int rows, int columns, const float* in, float* out) {
    for (int i = 1; i < rows - 1; ++i)
        for (int j = 1; j < columns - 1; ++j)
            out[i * columns + j] =
                0.2f * (in[i * columns + j] + in[i * columns + j - 1] + in[i * columns + j + 1] +
                        in[(i - 1) * columns + j] + in[(i + 1) * columns + j]);
}
