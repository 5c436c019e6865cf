"""The block step of mcODM: the exact maximiser of the dual in one example's variables.

Of example i with class y, weight u, A = k(x_i, x_i) and scores f_l = <w_l, phi(x_i)> the
dual of the sub-problem (:mod:`odmtool.solvers.mcodm.rounds`) contains, with everything else fixed,

    alpha_i:  max  -A/2 sum_l (alpha^l)^2 - sum_l B_l alpha^l + (1-theta) alpha^y
                   - (alpha^y)^2 / (4 c1 u)
              over sum_l alpha^l = 0, alpha^l <= 0 for l != y;   B_l = f_l - A alpha^l_now
    beta_i:   max  -h/2 beta^2 + (z + h beta_now - upper) beta - beta^2 / (4 c2 u)
              over beta >= 0;   z = f_y - f_rival, h = 2 A (A if there is no rival)

Update      beta in closed form. For alpha the multiplier nu of the equality solves

                sum_{l != y} max(0, B_l - nu) = (nu - e) A / (A + 1/(2 c1 u)),
                e = B_y - 1 + theta,   alpha^l = -max(0, B_l - nu) / A,

            a convex decreasing function against a line: Newton's method, from the root for the
            largest B_l alone, which is not above that for all, only ever drops classes and
            ends, after at most k steps and mostly one or two, at the exact root. This is what
            TKDE Algorithm 4 finds by sorting the B_l, with the division of nu that it forgets
            to print.
Source      Zhang & Zhou, "Optimal margin distribution machine", TKDE 2019, section 4.1,
            eq. (24)-(41); the root finding after Michelot, "A finite algorithm for finding the
            projection of a point onto the canonical simplex of R^n", JOTA 1986.
"""

from __future__ import annotations

from odmtool._jit import njit


@njit
def alpha_step(B, classes, n, y, A, threshold, c, alpha):
    """Set alpha to its best value.

    Returns float: nu - e, the multiplier from B_y - 1 + theta on: >= 0.

    Parameters
    ----------
    B : ndarray, shape (k,)
        Scores without the example's own alpha.
    classes : int array
        The first ``n`` are the classes to look at, y among them.
    y : int
    A : float, >= 0
        k(x, x); where it is 0 all of alpha goes to the first class.
    threshold : float
        1 - theta.
    c : float, > 0
        c1 u.
    alpha : ndarray, shape (k,)
        Changed in place, at the classes to look at.
    """
    e = B[y] - threshold
    D = A + 0.5 / c
    largest = 0.0
    for a in range(n):
        j = classes[a]
        if j != y:
            largest = max(largest, B[j] - e)
    number, rest = n + 1, largest * D / (D + A)
    while True:
        total, count = 0.0, 0
        for a in range(n):
            over = B[classes[a]] - e
            if classes[a] != y and over > rest:
                total += over
                count += 1
        if count == 0 or count >= number:
            break
        number = count
        rest = total * D / (count * D + A)
    s, spread = 0.0, A == 0.0
    for a in range(n):
        j = classes[a]
        if j == y:
            continue
        over = B[j] - e
        p = 0.0
        if A > 0.0:
            p = max(0.0, over - rest) / A
        elif spread:
            p, spread = max(0.0, 2.0 * c * over), False
        alpha[j] = -p
        s += p
    alpha[y] = s
    return rest


@njit
def beta_step(z, beta, h, upper, c):
    """The best beta: z is f_y - f_rival with ``beta`` in it, c is c2 u; 0 if upper is infinite."""
    return max(0.0, (z + h * beta - upper) / (h + 0.5 / c))


@njit
def gap_share(z_own, z_best, beta_z, s, beta, products, threshold, upper, c1, c2):
    """What one example adds to the gap of the sub-problem, >= 0.

    Parameters
    ----------
    z_own, z_best : float
        f_y and the largest other score.
    beta_z : float
        f_y - f_rival.
    s, beta : float
        alpha^y and beta.
    products : float
        sum_l (coefficient of class l) f_l.
    threshold, upper, c1, c2 : float
        1 - theta, the right-hand side of the upper constraint, c1 u and c2 u.
    """
    xi = max(0.0, threshold - z_own + z_best)
    over = max(0.0, beta_z - upper)
    dual = threshold * s - 0.25 * s * s / c1
    if beta > 0.0:
        dual -= upper * beta + 0.25 * beta * beta / c2
    return c1 * xi * xi + c2 * over * over + products - dual
