extern "C" void spmv(int rows, int columns, const int* __restrict__ offsets,
                     const int* __restrict__ indices, const float* __restrict__ values,
                     const float* __restrict__ x, float* __restrict__ y) {
    (void)columns;
    for (int i = 0; i < rows; ++i) {
        const int end = offsets[i + 1];
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        int k = offsets[i];
        for (; k + 4 <= end; k += 4) {
            s0 += values[k] * x[indices[k]];
            s1 += values[k + 1] * x[indices[k + 1]];
            s2 += values[k + 2] * x[indices[k + 2]];
            s3 += values[k + 3] * x[indices[k + 3]];
        }
        for (; k < end; ++k)
            s0 += values[k] * x[indices[k]];
        y[i] = (s0 + s1) + (s2 + s3);
    }
}
