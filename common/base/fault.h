/* Fault points, for tests: `err = KR_FAULT("journal.fsync")` is 0, or the -errno that the environment asks for.
 *
 * The environment variable KR_FAULT holds "point:action[:count]" items separated by commas.  Actions: kill (SIGKILL
 * this process), stop (SIGSTOP it), eio, enospc, edquot, delay-MS (sleep, then go on).  COUNT: act on the count-th pass
 * only (1 = the first); without it on every pass.  "@FILE" instead: FILE holds one item while it exists, COUNT is 1 or
 * not given; a 1 is taken, with the file, by the first pass that acts, so that a test sees it happen to daemons that
 * run; the action hold waits there until FILE is gone.  Compiled in with -Dfaults=true (-DKR_FAULTS) only.  Any thread.
 */
#ifndef KR_COMMON_FAULT_H
#define KR_COMMON_FAULT_H

#ifdef KR_FAULTS
#define KR_FAULT(point) kr_fault_pass(point)
int kr_fault_pass(const char *point);
#else
#define KR_FAULT(point) 0
#endif

#endif
