extern "C" void spmv(int rows, int columns, const int* offsets, const int* indices,
                     const float* values, const float* x, float* y) {
    (void)columns;
    for (int i = 0; i < rows; ++i) {
        y[i] = 0.0f;
        for (int k = offsets[i]; k < offsets[i + 1] - 1; ++k)
            y[i] += values[k] * x[indices[k]];
    }
}
