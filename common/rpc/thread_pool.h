/* libuv's thread pool, which all loops of a process share.
 *
 * libuv starts all of its threads with the first job, and aborts the process if one cannot be made.  A job's limit of
 * processes, say, can be reached at any moment: so the pool starts before anything depends on the process. */
#ifndef KR_COMMON_THREAD_POOL_H
#define KR_COMMON_THREAD_POOL_H

/* Whether as many threads can be made as the environment's UV_THREADPOOL_SIZE says, and a few more: 0, or -EAGAIN
 * with a reason. */
int kr_thread_pool_check(void);
/* Starts the pool, if that is so.  Call it after the last fork, and when the calling thread has no privileges any more
 * that these threads must not have.  Blocks for a moment. */
int kr_thread_pool_start(void);

#endif
