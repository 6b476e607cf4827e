// What this process reads and writes of one file, byte by byte: stands before the C library for the functions that the
// layer does so by, batches of a kairan mount included.
#pragma once

#include <stddef.h>

struct spy_file {
	size_t size;
	unsigned char *read, *written; // how often each byte was asked for, and was given
	int reads, writes;             // calls
	int batches;                   // those of `writes` that are batches
	int main_calls;                // those of both from the main thread
	int beyond;                    // those of both beyond `size`
};

// From now on, the file's first `size` bytes; the last one's figures are forgotten.
void spy_file_begin(const char *path, size_t size);
// What there was until now, valid until the next beginning.
const struct spy_file *spy_file_end(void);
// HOOK runs in the calling thread before each such call, with how many calls there were before; NULL: none.
void spy_file_before(void (*hook)(int nth));
