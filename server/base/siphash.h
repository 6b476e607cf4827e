/* SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012): a keyed 64-bit code over short input.
 * No state, any thread.
 */
#ifndef KR_SERVER_SIPHASH_H
#define KR_SERVER_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t kr_siphash(const uint8_t key[16], const void *bytes, size_t length);

#endif
