"""proto"""
from __future__ import annotations
import numpy as np
from odmtool.solvers.mcodm_descent import KernelDescent, LinearDescent
from odmtool.solvers.multi import Duals, MultiProblem, MultiSolution, Round
import time

def losses_at(scores, target, weight, loss, rival, upper):
    """True loss, sub-problem's loss, best rivals."""
    m = len(target)
    rows = np.arange(m)
    own = scores[rows, target]
    others = scores.copy()
    others[rows, target] = -np.inf
    best = others.argmax(axis=1)
    g = own - others[rows, best]
    below = loss.c1 * (weight @ np.maximum(0, 1 - loss.theta - g) ** 2)
    true = below + loss.c2 * (weight @ np.maximum(0, g - 1 - loss.theta) ** 2)
    z = own - np.where(rival >= 0, scores[rows, rival], 0.0)
    sub = below + loss.c2 * (weight @ np.maximum(0, z - upper) ** 2)
    return true, sub, best, others[rows, best]

def dual_linear(duals, target, weight, loss):
    s = duals.alpha[np.arange(len(target)), target]
    b = duals.beta
    v = (1 - loss.theta) * s - s * s / (4 * loss.c1 * weight)
    has = b > 0
    v[has] -= duals.upper[has] * b[has] + b[has] ** 2 / (4 * loss.c2 * weight[has])
    return v.sum()

def solve(problem, stop, *, outer="cccp", seed=0, start=None, progress=None, first=0.1, factor=.1, log=False, onceper=False):
    m, k = problem.size, problem.k
    loss = problem.parameters
    duals = Duals(np.zeros((m, k)), np.zeros(m), np.full(m, -1), np.full(m, np.inf))
    cls = LinearDescent if problem.gram is None else KernelDescent
    D = cls(problem, duals, seed)
    epochs = 0
    F_best = np.inf; fell = np.inf
    rounds = []
    t0 = time.process_time()
    target_gap = max(first, stop.tolerance)
    r = 0
    while True:
        # inner
        inner = target_gap
        est_scale = None
        while True:
            D.restore()
            n0 = epochs
            while True:
                est = D.epoch(); epochs += 1
                # scale
                nrm = D.squared_norm() if problem.gram is None else None
                dual = dual_linear(duals, problem.target, problem.weight, loss) - (nrm or 0) / 2
                P = est + dual
                if log: print("   ep", epochs, est/max(P,1e-300), D.active, D._lists.count.mean(), round(time.process_time()-t0,3))
                if est <= inner * P or epochs >= stop.max_iter: break
            D.rebuild()
            nrm = D.squared_norm()
            F, P, best, M = losses_at(D.scores(), problem.target, problem.weight, loss, duals.rival, duals.upper)
            F += nrm / 2; P += nrm / 2
            dual = dual_linear(duals, problem.target, problem.weight, loss) - nrm / 2
            gap = (P - dual) / P
            if log: print("  check F %.8g P %.8g D %.8g gap %.2e  changed %d  t %.3f" % (F, P, dual, gap, (best != duals.rival).sum(), time.process_time()-t0))
            if (F <= F_best and gap <= target_gap) or epochs >= stop.max_iter: break
            if F_best < np.inf and (F_best-dual) <= 0.3*stop.tolerance * F_best: break
            inner = inner/2
        r += 1
        ok = F <= F_best
        if ok:
            fell = (F_best - F) / F if F_best < np.inf else np.inf
            F_best = F
            kept = D.snapshot()
        else:
            return kept, F_best, epochs, r, time.process_time()-t0
        # new rivals
        duals.rival[:] = best; duals.upper[:] = 1 + loss.theta
        D.rebuild()
        dual = dual_linear(duals, problem.target, problem.weight, loss) - D.squared_norm() / 2
        g = (F_best - dual) / F_best
        if log: print("round", r, "F", F_best, "fell %.2e gap %.2e epochs %d t %.3f" % (fell, g, epochs, time.process_time()-t0))
        if (fell <= stop.tolerance and g <= stop.tolerance) or epochs >= stop.max_iter:
            return kept, F_best, epochs, r, time.process_time()-t0
        target_gap = max(stop.tolerance*.9, factor * target_gap)
