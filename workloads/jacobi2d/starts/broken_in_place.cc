extern "C" void jacobi2d(int rows, int columns, const float* in, float* out) {
    for (int i = 0; i < rows * columns; ++i)
        out[i] = in[i];
    for (int i = 1; i < rows - 1; ++i)
        for (int j = 1; j < columns - 1; ++j)
            out[i * columns + j] =
                0.2f * (out[i * columns + j] + out[i * columns + j - 1] + out[i * columns + j + 1] +
                        out[(i - 1) * columns + j] + out[(i + 1) * columns + j]);
}
