/* kairan gantt: draws the phase traces of collective I/O, or sums them up. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/spawn.h"
#include "tools/commands.h"
#include "tools/gantt/gantt.h"

static const char usage[] =
	"usage: kairan gantt [--file NAME] [--call N] [-o FILE.svg] [--png FILE.png] TRACE...\n"
	"       kairan gantt --summary [--file NAME] [--call N] TRACE...\n"
	"Draws the phases of collective I/O that libkairan-mpiio has traced: a row per rank, exchange above, file "
	"I/O below.\n"
	"  --summary      print a line per call instead: time, share of each phase, overlap, MB/s\n"
	"  --file NAME    only this file (the name as it was opened)\n"
	"  --call N       only the N-th collective call, from 0\n"
	"  -o FILE.svg    write the drawing there (without: to standard output, unless --png)\n"
	"  --png FILE.png make a PNG, too (by rsvg-convert or ImageMagick)\n"
	"Exit code: 0; 2 with a message when a trace cannot be read or a file not be written.\n";

struct request {
	const char *file, *svg, *png;
	uint64_t call;
	bool summary;
};

/* 0, or an exit code plus 1. */
static int parse(int argc, char **argv, struct request *request)
{
	static const struct option options[] = {{"summary", no_argument, NULL, 's'},
		{"file", required_argument, NULL, 'f'}, {"call", required_argument, NULL, 'c'},
		{"output", required_argument, NULL, 'o'}, {"png", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'}, {0}};
	int option;
	*request = (struct request){.call = UINT64_MAX};
	while ((option = kr_tool_option(argc, argv, "o:h", options)) != -1) {
		switch (option) {
		case 's':
			request->summary = true;
			break;
		case 'f':
			request->file = optarg;
			break;
		case 'c':
			if (!kr_parse_number(optarg, 0, UINT64_MAX - 1, &request->call)) {
				fprintf(stderr, "kairan gantt: --call %s: not a number\n", optarg);
				return KR_EXIT_USAGE + 1;
			}
			break;
		case 'o':
			request->svg = optarg;
			break;
		case 'p':
			request->png = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return KR_EXIT_OK + 1;
		default:
			fputs(usage, stderr);
			return KR_EXIT_USAGE + 1;
		}
	}
	if (optind == argc || (request->summary && (request->svg || request->png))) {
		fputs(usage, stderr);
		return KR_EXIT_USAGE + 1;
	}
	return 0;
}

/* Closes OUT; checks that it took everything. */
static int finish(FILE *out, const char *path, int error)
{
	bool bad = ferror(out) != 0;
	bad = (out == stdout ? fflush(out) : fclose(out)) != 0 || bad;
	if (error < 0)
		return kr_fail(error, "%s: no memory", path);
	return bad ? kr_fail(-EIO, "%s: cannot write: %s", path, strerror(errno)) : 0;
}

/* PATH NULL: standard output. */
static int write_svg(const struct kr_gantt *gantt, const char *path)
{
	FILE *out = path ? fopen(path, "we") : stdout;
	if (!out)
		return kr_fail(-errno, "%s: cannot write: %s", path, strerror(errno));
	return finish(out, path ? path : "standard output", kr_gantt_draw(gantt, out));
}

/* Runs a converter. 0, -ENOENT when it is not installed, -EIO when it fails. */
static int convert(const char *const *argv)
{
	pid_t pid;
	int error = kr_tool_spawn(argv, -1, -1, &pid);

	return error == 0 ? kr_tool_wait(pid) : error;
}

static int write_png(const char *svg, const char *png)
{
	int error = convert((const char *const[]){"rsvg-convert", "-o", png, svg, NULL});

	if (error == -ENOENT)
		error = convert((const char *const[]){"magick", svg, png, NULL});
	if (error == -ENOENT)
		error = convert((const char *const[]){"convert", svg, png, NULL});
	if (error == -ENOENT)
		return kr_fail(error,
			"%s: cannot make a PNG: install rsvg-convert (librsvg2-bin) or ImageMagick, or use the SVG",
			png);
	return error < 0 ? kr_fail(error, "%s: the converter failed", png) : 0;
}

/* Makes the PNG by way of a temporary SVG. */
static int write_png_alone(const struct kr_gantt *gantt, const char *png)
{
	const char *folder = getenv("TMPDIR");
	KR_AUTO_FREE char *svg = NULL;
	if (asprintf(&svg, "%s/kairan-gantt-XXXXXX.svg", folder && *folder ? folder : "/tmp") < 0) {
		svg = NULL;
		return kr_fail(-ENOMEM, "%s: no memory", png);
	}
	int fd = mkstemps(svg, 4);
	if (fd < 0)
		return kr_fail(-errno, "%s: cannot make a temporary file: %s", svg, strerror(errno));
	close(fd);
	int error = write_svg(gantt, svg);
	if (error == 0)
		error = write_png(svg, png);
	unlink(svg);
	return error;
}

static int show(const struct kr_gantt *gantt, const struct request *request)
{
	int error = 0;
	if (gantt->count == 0)
		return kr_fail(-ENODATA, "no events%s",
			request->file || request->call != UINT64_MAX ? " of this file and call in the traces" :
								       " in the traces");
	if (request->summary) {
		kr_gantt_summary(gantt, stdout);
		return finish(stdout, "standard output", 0);
	}
	if (request->png && !request->svg)
		return write_png_alone(gantt, request->png);
	error = write_svg(gantt, request->svg);
	return error == 0 && request->png ? write_png(request->svg, request->png) : error;
}

int kr_tool_gantt(int argc, char **argv)
{
	struct request request;
	struct kr_gantt gantt;
	int error = parse(argc, argv, &request);
	if (error > 0)
		return error - 1;
	kr_gantt_init(&gantt);
	for (int i = optind; i < argc && error == 0; i++)
		error = kr_gantt_read(&gantt, argv[i], request.file, request.call);
	if (error == 0) {
		kr_gantt_sort(&gantt);
		error = show(&gantt, &request);
	}
	kr_gantt_fini(&gantt);
	if (error < 0)
		fprintf(stderr, "kairan gantt: %s\n", kr_fail_reason());
	return error < 0 ? KR_EXIT_FAILED : KR_EXIT_OK;
}
