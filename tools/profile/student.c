/* See student.h. The tail is the regularized incomplete beta function I_x(df/2, 1/2) with x = df / (df + t^2), by its
 * continued fraction (NIST Digital Library of Mathematical Functions, 8.17.22). */
#include "tools/profile/student.h"

#include <math.h>

enum { MOST_TERMS = 500 };

static const double TINY = 1e-300, PRECISION = 1e-12;

static double away_from_zero(double x)
{
    return fabs(x) < TINY ? TINY : x;
}

/* The continued fraction by Lentz's method; converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), fraction = d;
    for (int m = 1; m < MOST_TERMS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / away_from_zero(1 + even * d);
        c = away_from_zero(1 + even / c);
        fraction *= c * d;
        d = 1 / away_from_zero(1 + odd * d);
        c = away_from_zero(1 + odd / c);
        fraction *= c * d;
        if (fabs(c * d - 1) < PRECISION) {
            break;
        }
    }
    return fraction;
}

static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0 || x >= 1) {
        return x > 0;
    }
    double factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return x < (a + 1) / (a + b + 2) ? factor * beta_fraction(a, b, x) / a
                                     : 1 - factor * beta_fraction(b, a, 1 - x) / b;
}

double et_student_beyond(double t, double df)
{
    return incomplete_beta(df / 2, 0.5, df / (df + t * t));
}

/* The derivative of et_student_beyond() by the logarithm of t, negated. */
static double density_by_log(double t, double df)
{
    double normalizer = exp(lgamma((df + 1) / 2) - lgamma(df / 2)) / sqrt(df * acos(-1));
    return 2 * t * normalizer * exp(-(df + 1) / 2 * log1p(t * t / df));
}

/* Newton's method on logarithms, in which both the normal and the power-law tail are smooth; halves its bracket when a
 * step leaves it. */
double et_student_quantile(double probability, double df)
{
    double low = 0, high = 1, t;
    while (et_student_beyond(high, df) > probability && high < 1e150) {
        low = high;
        high *= 4;
    }
    t = low > 0 ? sqrt(low * high) : high / 2;
    for (int i = 0; i < 60; i++) {
        double beyond = et_student_beyond(t, df), density = density_by_log(t, df);
        *(beyond > probability ? &low : &high) = t;
        double next = density > 0 ? t * exp((log(beyond) - log(probability)) * beyond / density) : 0;
        next = next > low && next < high ? next : (low + high) / 2;
        if (fabs(next - t) <= PRECISION * t) {
            return next;
        }
        t = next;
    }
    return t;
}
