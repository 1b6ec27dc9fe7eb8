// c = a b in double precision.
extern "C" void matmul_reference(int n, const double* a, const double* b, double* c) {
    for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j)
            c[i * n + j] = 0.0;
        for (int k = 0; k < n; ++k)
            for (int j = 0; j < n; ++j)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
}
