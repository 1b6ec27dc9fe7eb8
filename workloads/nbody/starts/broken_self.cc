#include <cmath>

extern "C" void nbody(int n, float softening, const float* x, const float* y, const float* z,
                      const float* mass, float* ax, float* ay, float* az) {
    (void)softening;
    for (int i = 0; i < n; ++i) {
        ax[i] = 0.0f;
        ay[i] = 0.0f;
        az[i] = 0.0f;
        for (int j = 0; j < n; ++j) {
            const float dx = x[j] - x[i];
            const float dy = y[j] - y[i];
            const float dz = z[j] - z[i];
            const float d2 = dx * dx + dy * dy + dz * dz;
            const float inverse = 1.0f / std::sqrt(d2);
            const float weight = mass[j] * inverse * inverse * inverse;
            ax[i] += weight * dx;
            ay[i] += weight * dy;
            az[i] += weight * dz;
        }
    }
}
