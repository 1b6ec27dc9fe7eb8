// Softened gravity of all pairs in double precision.
#include <cmath>

extern "C" void nbody_reference(int n, double softening, const double* x, const double* y,
                                const double* z, const double* mass, double* ax, double* ay,
                                double* az) {
    for (int i = 0; i < n; ++i) {
        double sum_x = 0, sum_y = 0, sum_z = 0;
        for (int j = 0; j < n; ++j) {
            const double dx = x[j] - x[i];
            const double dy = y[j] - y[i];
            const double dz = z[j] - z[i];
            const double d2 = dx * dx + dy * dy + dz * dz + softening * softening;
            const double weight = mass[j] / (d2 * std::sqrt(d2));
            sum_x += weight * dx;
            sum_y += weight * dy;
            sum_z += weight * dz;
        }
        ax[i] = sum_x;
        ay[i] = sum_y;
        az[i] = sum_z;
    }
}
