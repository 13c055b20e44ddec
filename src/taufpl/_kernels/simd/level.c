/* The equation Psi(L) = 0 of docs/projection.md: monotone Newton steps, then the closed form. */
#include "level.h"

#include <float.h>
#include <math.h>

#define MAX_STEPS 200     /* a guard against cycling in floating point; a solve takes about ten */
#define MAX_POLISH 8
#define WORTH_PRUNING 128 /* entries */

static level_status leave(level_problem *p, tail *t, int side) {
    p->outside = t;
    p->side = side;
    return OUTSIDE;
}

/* Count and excess at a threshold. Thresholds past a proven end are rounding noise and are put on it. */
static level_status evaluate(level_problem *p, tail *t, double threshold) {
    const int ties = t == &p->lower; /* left of the minimum of T the slope is taken from the left */
    if (threshold < t->low) {
        if (!t->low_is_proven) return leave(p, t, -1);
        threshold = t->low;
    } else if (threshold > t->high) {
        if (!t->high_is_proven) return leave(p, t, +1);
        threshold = t->high;
    }
    double count, excess;
    p->scan->evaluate(t->y, t->n, threshold, ties, &count, &excess);
    t->at = threshold;
    t->n_above = t->count + count;
    t->over = (t->excess - t->count * threshold) + excess;
    return SOLVED;
}

static double smallest(const double *y, ptrdiff_t n) {
    double least = INFINITY;
    for (ptrdiff_t i = 0; i < n; i++) least = y[i] < least ? y[i] : least;
    return least;
}

/* T(t->at), relative to k * lower.origin. */
static double height(const level_problem *p, const tail *t) {
    return t->over + p->k * (t == &p->upper ? t->at + p->gap : t->at);
}

/* One end of the level set {T <= level}: the lower end from the left, the upper end from the right. */
static level_status find_end(level_problem *p, tail *t, double level) {
    const double sign = t == &p->lower ? -1.0 : 1.0;
    for (int step = 0; step < MAX_STEPS; step++) {
        double slope = p->k - t->n_above;
        if (sign * slope <= 0.0) return BELOW_MINIMUM;
        /* the level lies in its window, so that only rounding can push its end out of the interval */
        double next = fmin(fmax(t->at - (height(p, t) - level) / slope, t->low), t->high);
        if (next == t->at) return SOLVED;
        double before_count = t->n_above;
        level_status status = evaluate(p, t, next);
        if (status != SOLVED) return status;
        if (t->n_above == before_count) return SOLVED;
    }
    return SOLVED;
}

typedef struct {
    double level, value, slope;
    double n_alpha, n_lower, n_upper;
    double lower_at, upper_at;
    int alpha_side; /* lambda / weight lies below (-1), in (0) or above (+1) the interval of alpha */
} point;

/* Psi and its slope at the thresholds last evaluated. */
static level_status measure(level_problem *p, double level, point *out) {
    double x = p->lower.n_above - p->k, y = p->k - p->upper.n_above;
    double c = p->k * (p->gap + (p->upper.at - p->lower.at));
    double c_slope = p->k * (1.0 / x + 1.0 / y);
    out->level = level;
    out->lower_at = p->lower.at;
    out->upper_at = p->upper.at;
    out->n_alpha = 0.0;
    out->alpha_side = 0;
    out->n_lower = p->lower.n_above;
    out->n_upper = p->upper.n_above;
    p->solution = c;
    if (p->kind == TOPK_CONE) {
        out->value = (level + p->residue + p->k * p->lower.origin) - c;
        out->slope = 1.0 - c_slope;
    } else if (p->kind == CAPPED_SIMPLEX) {
        out->value = p->total - c;
        out->slope = -c_slope;
    } else {
        const tail *t = &p->alpha;
        double u = ((p->balance - p->lower.at) - (p->upper.over + p->residue) / p->k) / p->weight;
        if (u > t->high && !t->high_is_proven) out->alpha_side = +1;
        if (u < t->low && !t->low_is_proven) out->alpha_side = -1;
        level_status status = evaluate(p, &p->alpha, fmin(fmax(u, t->low), t->high));
        if (status != SOLVED) return status;
        out->n_alpha = t->n_above;
        out->value = p->ratio * t->over - c;
        out->slope = -p->ratio * t->n_above / p->weight * (1.0 / x + 1.0 / y - 1.0 / p->k) - c_slope;
        /* S falls: past the interval its value at the end is a bound, which may still settle the sign */
        if (out->alpha_side > 0 && out->value >= 0.0) return leave(p, &p->alpha, +1);
        if (out->alpha_side < 0 && out->value <= 0.0) return leave(p, &p->alpha, -1);
    }
    return SOLVED;
}

static level_status psi(level_problem *p, double level, point *out) {
    level_status status = find_end(p, &p->lower, level);
    if (status == SOLVED) status = find_end(p, &p->upper, level);
    return status == SOLVED ? measure(p, level, out) : status;
}

static void tighten(level_problem *p, tail *t, int from_above) {
    if (from_above) {
        t->high = t->at;
        t->high_is_proven = 1;
    } else {
        t->low = t->at;
        t->low_is_proven = 1;
    }
    if (t->n > WORTH_PRUNING) t->n = p->scan->prune(t->y, t->n, t->low, t->high, &t->count, &t->excess);
}

/* Left of the root mu is too large, delta and lambda too small; right of it the other way round. */
static void tighten_all(level_problem *p, int is_left, int alpha_inside) {
    tighten(p, &p->lower, is_left);
    tighten(p, &p->upper, !is_left);
    if (p->kind == TOPK_SIMPLEX && alpha_inside) tighten(p, &p->alpha, !is_left);
}

double select_largest(double *y, ptrdiff_t n, ptrdiff_t rank) { /* Hoare's quickselect */
    ptrdiff_t first = 0, last = n - 1;
    while (first < last) {
        double a = y[first], b = y[first + (last - first) / 2], c = y[last];
        double pivot = a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b));
        ptrdiff_t i = first, j = last;
        while (i <= j) {
            while (y[i] > pivot) i++;
            while (y[j] < pivot) j--;
            if (i <= j) {
                double swap = y[i];
                y[i++] = y[j];
                y[j--] = swap;
            }
        }
        if (rank <= j) last = j;
        else if (rank >= i) first = i;
        else break;
    }
    return y[rank];
}

static void set_evaluation(tail *t, double at, double n_above, double over) {
    t->at = at;
    t->n_above = n_above;
    t->over = over;
}

/* Moves both ends to the minimum of T: between entries k+1 and k, counted from the largest. */
static level_status go_to_minimum(level_problem *p, double *level) {
    if (!p->joined) return NEEDS_JOIN;
    tail *t = &p->lower;
    const double whole = floor(p->k);
    const ptrdiff_t rank = (ptrdiff_t)(whole - t->count); /* of entry k+1 among the undecided, from 0 */
    if (rank < 0) return leave(p, t, +1);
    if (rank >= t->n) {
        if (t->low > -DBL_MAX) return leave(p, t, -1);
        const double n_finite = t->count + (double)t->n;
        if (p->k > n_finite) return p->kind == CAPPED_SIMPLEX ? INFEASIBLE : ZERO;
        /* k = n: T has no falling branch, its infimum is the sum of all entries */
        double sum = t->excess;
        for (ptrdiff_t i = 0; i < t->n; i++) sum += t->y[i];
        *level = sum;
        set_evaluation(&p->lower, -INFINITY, p->k, INFINITY);
        set_evaluation(&p->upper, INFINITY, p->k, 0.0);
        return SOLVED;
    }
    double left = select_largest(t->y, t->n, rank), right = left;
    if (whole == p->k) {
        if (rank == 0) return leave(p, t, +1);
        right = smallest(t->y, rank);
    }
    level_status status = evaluate(p, &p->lower, left);
    if (status == SOLVED) status = evaluate(p, &p->upper, right);
    *level = height(p, &p->upper); /* not the lower end: it may lie far from the entries that matter */
    return status;
}

/* What a linear piece knows of beta: D at the cap, F between 0 and the cap, everything relative to lower.origin. */
typedef struct {
    double n_capped, sum_capped; /* |D|, sum(D) */
    double n_free, free_excess;  /* |F|, sum(F) - |F| mu */
} beta_piece;

/* On a known piece the total has a closed form, whose rounding errors do not depend on the path that led here:
 *     C (weight/|A| + q^2/|F| + |D|/k^2) = weight mean(A) + q mean(F) + sum(D)/k,        q = 1 - |D|/k.
 */
static double total_on_piece(const level_problem *p, const beta_piece *b) {
    const tail *a = &p->alpha;
    const double q = 1.0 - b->n_capped / p->k;
    double right = b->sum_capped / p->k, left = b->n_capped / (p->k * p->k);
    if (b->n_free > 0.0) {
        right += q * (p->lower.at + b->free_excess / b->n_free);
        left += q * q / b->n_free;
    }
    if (p->kind == CAPPED_SIMPLEX) return p->total;
    if (p->kind == TOPK_CONE) return (right + p->lower.origin) / left;
    right += p->weight * (a->at + a->over / a->n_above) - p->balance;
    left += p->weight / a->n_above;
    return right / left;
}

/* The last digits of the thresholds. A small weight leaves lambda / weight rough, so that alpha's part of the piece may
 * still change by an entry or two. */
static level_status polish(level_problem *p, const beta_piece *b) {
    tail *a = &p->alpha;
    p->solution = total_on_piece(p, b);
    for (int step = 0; p->kind == TOPK_SIMPLEX && step < MAX_POLISH; step++) {
        const double before = a->n_above;
        level_status status = evaluate(p, a, a->at + (a->over - p->solution) / before);
        if (status != SOLVED) return status;
        if (a->n_above == 0.0) return ZERO;
        p->solution = total_on_piece(p, b);
        if (a->n_above == before) {
            a->at += (a->over - p->solution) / before;
            break;
        }
    }
    p->n_free = b->n_free;
    if (b->n_free > 0.0) p->lower.at += (b->free_excess - p->solution * (1.0 - b->n_capped / p->k)) / b->n_free;
    return p->solution <= 0.0 ? ZERO : SOLVED;
}

/* The answer lies where T is flat: S(u) = C = k lambda + L_min, or what closes the other sets. */
static level_status solve_flat(level_problem *p, double level) {
    const double sum = level + p->residue; /* of the k largest entries */
    if (p->kind == CAPPED_SIMPLEX) {
        p->solution = p->total;
        return SOLVED_FLAT;
    }
    if (p->kind == TOPK_CONE) {
        p->solution = sum + p->k * p->lower.origin;
        return p->solution <= 0.0 ? ZERO : SOLVED_FLAT;
    }
    tail *t = &p->alpha;
    const double constant = p->k * p->balance - sum, steepness = p->k * p->weight;
    const double first = t->low > -DBL_MAX || t->high < INFINITY ? 0.0 : constant / steepness;
    level_status status = evaluate(p, t, fmin(fmax(first, t->low), t->high));
    for (int step = 0; status == SOLVED && step < MAX_STEPS; step++) {
        const double at = t->at, count = t->n_above;
        const double residual = p->ratio * t->over - (steepness * at - constant);
        const double next = at + residual / (p->ratio * count + steepness);
        if (next == at) break;
        if (next < t->low && at == t->low) {
            if (t->low_is_proven) break; /* rounding */
            return leave(p, t, -1);
        }
        if (next > t->high && at == t->high) {
            if (t->high_is_proven) break;
            return leave(p, t, +1);
        }
        status = evaluate(p, t, fmin(fmax(next, t->low), t->high));
        if (t->n_above == count && t->at == next) break;
    }
    if (status != SOLVED) return status;
    p->solution = p->ratio * t->over;
    if (p->solution <= 0.0) return ZERO; /* NaN, after an overflow, is not zero */
    if (p->ratio != 1.0) return SOLVED_FLAT; /* a sample needs no last digits */
    const beta_piece top = {p->k, sum, 0.0, 0.0};
    status = polish(p, &top);
    return status == SOLVED ? SOLVED_FLAT : status;
}

/* The levels whose two ends both lie inside their intervals, and the tail that limits them on either side. */
typedef struct {
    double low, high;
    tail *low_owner, *high_owner;
} window;

static level_status bound_level(level_problem *p, tail *t, double end, window *levels) {
    const double sign = t == &p->lower ? -1.0 : 1.0;
    level_status status = evaluate(p, t, end);
    if (status != SOLVED || sign * (p->k - t->n_above) <= 0.0) return status; /* past the minimum: no bound */
    const double level = height(p, t);
    const int is_outer_end = (end == t->high) == (t == &p->upper);
    if (is_outer_end && level < levels->high) {
        levels->high = level;
        levels->high_owner = t;
    } else if (!is_outer_end && level > levels->low) {
        levels->low = level;
        levels->low_owner = t;
    }
    return SOLVED;
}

/* The root's level is higher (+1) or lower (-1) than the interval of this tail allows. */
static level_status leave_window(level_problem *p, tail *owner, int direction) {
    return leave(p, owner, owner == &p->upper ? direction : -direction);
}

static level_status find_window(level_problem *p, window *levels) {
    tail *tails[2] = {&p->lower, &p->upper};
    level_status status = SOLVED;
    levels->low = -INFINITY;
    levels->high = INFINITY;
    for (int i = 0; i < 2 && status == SOLVED; i++) {
        if (tails[i]->low > -DBL_MAX) status = bound_level(p, tails[i], tails[i]->low, levels);
        if (tails[i]->high < INFINITY && status == SOLVED) status = bound_level(p, tails[i], tails[i]->high, levels);
    }
    return status;
}

/* A point on the falling branch to start from, or BELOW_MINIMUM where there is none. */
static level_status start_lower(level_problem *p) {
    tail *t = &p->lower;
    double at = fmin(fmax(0.0, t->low), t->high);
    if (at == -DBL_MAX) return BELOW_MINIMUM; /* every entry is decided: k = n */
    level_status status = evaluate(p, t, at);
    if (status == SOLVED && t->n_above <= p->k) {
        at = t->low > -DBL_MAX ? t->low : smallest(t->y, t->n);
        if (at < t->at) status = evaluate(p, t, at);
    }
    return status == SOLVED && t->n_above <= p->k ? BELOW_MINIMUM : status;
}

/* A point on the rising branch: above every entry T is k t, so this is a Newton step from infinity. */
static level_status start_upper(level_problem *p, double level) {
    tail *t = &p->upper;
    double at = t->high < INFINITY ? fmax(0.0, t->low) : level / p->k - p->gap;
    level_status status = evaluate(p, t, fmin(at, t->high));
    if (status == SOLVED && t->n_above >= p->k && t->high < INFINITY) status = evaluate(p, t, t->high);
    return status;
}

static level_status start(level_problem *p, window *levels, double *level) {
    level_status status = find_window(p, levels);
    if (status == SOLVED && levels->low > levels->high) return leave_window(p, levels->high_owner, +1);
    if (status == SOLVED) status = start_lower(p);
    if (status != SOLVED) return status;
    *level = fmax(fmin(height(p, &p->lower), levels->high), levels->low);
    return start_upper(p, *level);
}

/* A Newton step from a to b is exact if Psi is linear between them. */
static int same_piece(const point *a, const point *b) {
    return a->n_alpha == b->n_alpha && a->n_lower == b->n_lower && a->n_upper == b->n_upper && !a->alpha_side;
}

static double newton(const point *from) { return from->level - from->value / from->slope; }

/* No better level is left to try; the answer stands if lambda was never clipped to its interval. */
static level_status settle(level_problem *p, const point *now) {
    if (now->alpha_side) return leave(p, &p->alpha, now->alpha_side);
    if (p->kind == TOPK_SIMPLEX && p->alpha.n_above == 0.0) return ZERO;
    if (p->ratio != 1.0) return SOLVED; /* a sample needs no last digits */
    const double n_capped = p->upper.n_above, width = p->gap + (p->upper.at - p->lower.at);
    const beta_piece piece = {
        n_capped,
        n_capped * (p->gap + p->upper.at) + (p->upper.over + p->residue),
        p->lower.n_above - n_capped,
        (p->lower.over - p->upper.over) - n_capped * width,
    };
    return polish(p, &piece);
}

/* Psi at another level, starting from the two ends that belong to a point on the right of the root. */
static level_status restart(level_problem *p, const point *right, double level, point *now) {
    level_status status = evaluate(p, &p->lower, right->lower_at);
    if (status == SOLVED) status = evaluate(p, &p->upper, right->upper_at);
    return status == SOLVED ? psi(p, level, now) : status;
}

level_status level_solve(level_problem *p) {
    const point nowhere = {NAN, 0, 0, NAN, 0, 0, 0, 0, 0};
    point left = nowhere, right = nowhere, now = nowhere, from = nowhere;
    window levels;
    double level = 0.0;
    level_status status = start(p, &levels, &level);
    if (status == SOLVED) status = psi(p, level, &now);
    for (int step = 0; step < MAX_STEPS; step++) {
        if (status == BELOW_MINIMUM && p->rough && !isnan(right.level)) {
            level += (right.level - level) / 2; /* T has no minimum to speak of; stay where it was last seen */
            status = restart(p, &right, level, &now);
            continue;
        }
        if (status == BELOW_MINIMUM) {
            if (!isnan(left.level)) return settle(p, &now); /* rounding: a proven level lies further left */
            status = go_to_minimum(p, &level);
            if (status == SOLVED && p->lower.at == -INFINITY) return solve_flat(p, level);
            if (status == SOLVED) status = measure(p, level, &now);
            if (status == SOLVED && now.value <= 0.0) return solve_flat(p, level);
        }
        if (status != SOLVED) return status;
        if (now.value == 0.0 || same_piece(&from, &now)) return settle(p, &now);
        const int is_left = now.value > 0.0;
        if (is_left) left = now;
        else right = now;
        if (is_left && level >= levels.high) return leave_window(p, levels.high_owner, +1);
        if (!is_left && level <= levels.low) return leave_window(p, levels.low_owner, -1);
        tighten_all(p, is_left, now.alpha_side == 0);
        from = now;
        if (newton(&from) <= left.level) from = left; /* from the right the first step may go too far */
        level = newton(&from);
        if (level <= left.level || level >= right.level) return settle(p, &now); /* nothing in between */
        if (level > levels.high || level < levels.low) {
            level = fmax(fmin(level, levels.high), levels.low);
            from = nowhere; /* cut short, the step is exact nowhere */
        }
        if (level == now.level) return settle(p, &now);
        status = psi(p, level, &now);
    }
    return settle(p, &now);
}
