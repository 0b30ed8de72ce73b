/* Student's t distribution. df: degrees of freedom, > 0, need not be whole. Context: any thread. */
#ifndef ET_STUDENT_H
#define ET_STUDENT_H

/* The probability of a value beyond t on either side. */
double et_student_beyond(double t, double df);
/* The t that is exceeded, on either side, with this probability, 0 < probability <= 1. */
double et_student_quantile(double probability, double df);

#endif
