/* Which boot of this machine it is: tells a process that ended from a machine that did. */
#ifndef KR_COMMON_BOOT_H
#define KR_COMMON_BOOT_H

#include <stdint.h>

/* The kernel's boot id.  0, or -errno with a reason.  With fault points compiled in, the environment's KR_BOOT_ID (32
 * hex digits) stands for it: another one is another boot, for tests.  Any thread. */
int kr_boot_id(uint8_t ret_id[16]);

#endif
