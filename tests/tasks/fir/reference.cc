// y[i] = sum_t h[t] x[i + t] in double precision.
extern "C" void fir_reference(int n, int taps, const double* x, const double* h, double* y) {
    for (int i = 0; i < n; ++i) {
        double sum = 0;
        for (int t = 0; t < taps; ++t)
            sum += h[t] * x[i + t];
        y[i] = sum;
    }
}
