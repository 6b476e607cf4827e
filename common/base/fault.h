/* Fault points, for tests: `err = KR_FAULT("journal.fsync")` is 0, or the -errno that the environment asks for.
 *
 * The environment variable KR_FAULT holds "point:action[:count]" items separated by commas.  Actions: kill (SIGKILL
 * this process), stop (SIGSTOP it), eio, enospc, edquot, delay-MS (sleep, then go on).  With COUNT only the count-th
 * pass acts (1: the first); without COUNT every pass acts.
 * With "@FILE" the item is in FILE while FILE exists, for daemons that already run.  COUNT is then 1 or absent; with 1
 * the first pass that acts removes FILE.  There the action hold waits until FILE is gone, or says something else, which
 * counts then.
 * Compiled in with -Dfaults=true (-DKR_FAULTS) only.  Any thread.
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
