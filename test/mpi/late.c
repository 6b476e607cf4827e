// A program that knows nothing of MPI, and loads a module that does, as interpreters do: late MODULE ARG...
//
// The module's symbols, and those of the MPI library that it brings, are for itself alone (RTLD_LOCAL).
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int (*run)(int, char **) = NULL;
	void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	if (module)
		*(void **)&run = dlsym(module, "run");
	if (!run) {
		fprintf(stderr, "late: %s\n", dlerror());
		return 2;
	}
	return run(argc - 1, argv + 1);
}
