/* What every fuzz target defines: libFuzzer's entry, and (without libFuzzer) what fuzz_main.c calls. */
#ifndef KR_TEST_FUZZ_H
#define KR_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

#endif
