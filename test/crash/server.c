#include "test/crash/crash.h"
void crash_server(struct crash *crash) { crash->points = crash->wanted; }
