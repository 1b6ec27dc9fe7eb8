extern "C" void spmv(int rows, int columns, const int* offsets, const int* indices,
                     const float* values, const float* x, float* y) {
    (void)columns;
    for (int i = 0; i < rows; ++i)
        y[i] = 0.0f;
    int row = 0;
    for (int k = 0; k < offsets[rows]; ++k) {
        while (k >= offsets[row + 1])
            ++row;
        y[row] += values[k] * x[indices[k]];
    }
}
