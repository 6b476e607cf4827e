// How often the MPI library was called from the program's main thread and from others (spy.c).
#pragma once

int spy_main_calls(void);
int spy_other_calls(void);
// Those in which all ranks take part, of either.
int spy_collective_calls(void);
// The layer sends views so, and data otherwise.
int spy_isends(void);
// Receives that were posted; those whose messages are here.
int spy_irecvs(void);
int spy_received(void);
// HOOK runs before each message of data is sent; NULL: none.
void spy_before_data(void (*hook)(void));
