// y = A x in double precision.
extern "C" void spmv_reference(int rows, int columns, const int* offsets, const int* indices,
                               const double* values, const double* x, double* y) {
    (void)columns;
    for (int i = 0; i < rows; ++i) {
        double sum = 0;
        for (int k = offsets[i]; k < offsets[i + 1]; ++k)
            sum += values[k] * x[indices[k]];
        y[i] = sum;
    }
}
