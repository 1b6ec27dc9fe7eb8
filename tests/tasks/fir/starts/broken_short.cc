extern "C" void fir(int n, int taps, const float* x, const float* h, float* y) {
    for (int i = 0; i < n; ++i) {
        y[i] = 0.0f;
        for (int t = 0; t < taps - 1; ++t)
            y[i] += h[t] * x[i + t];
    }
}
