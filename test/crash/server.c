/* The power-loss checker's second half: a server's export and state directory.
 *
 * A life: files are made, written by cells, synced, replaced by the rename-over idiom (write another, sync, rename),
 * linked, removed, directories synced; the server ends and starts again.  All by the functions that kairand calls. What
 * is promised: the bytes that a file had when its sync returned, wherever the file is found; the names that a directory
 * had when its sync returned, unless changed since; under a name that is only ever replaced, one whole file.  The state
 * directory can always be opened, never gives out an instance number (of which round numbers are made) twice, and keeps
 * the identity of the export.  A file's name is promised by the sync of its directory alone, as POSIX has it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "server/export/export.h"
#include "server/base/state.h"
#include "test/crash/crash.h"
#include "test/crash/disk.h"

enum { FILES = 400, CELLS = 40, CELL = 256, NAMES = 12, REPLACED = 3 };

struct cell {
	uint32_t write, file, cell, mark;
	uint8_t filler[CELL - 16];
};

struct known_file {
	struct kr_fid fid;
	uint32_t content[CELLS], promised[CELLS];
};

/* What is known of one name: which file it has, and whether a power failure must keep that. */
struct known_name {
	int file; /* -1: none */
	bool promised;
};

static struct life {
	struct crash *crash;
	struct kr_export *export;
	struct kr_state *state;
	struct kr_fid root;
	struct known_file files[FILES];
	int file_count;
	struct known_name names[NAMES + REPLACED];
	uint32_t last_write;
	uint64_t highest_instance;
	uint8_t export_id[16], secret[16];
	bool identified;
	uint64_t call_began;
	uint32_t sample;
	char mark[512]; /* the file `export` of the state directory, as it is */
} life;

static const char *name_of(int index)
{
	static char names[NAMES + REPLACED][24]; /* each its own: looking at states happens inside of calls */

	snprintf(names[index], sizeof(names[index]), "%s%d", index < NAMES ? "name" : "replaced",
		index < NAMES ? index : index - NAMES);
	return names[index];
}

static void fill_cell(struct cell *cell, uint32_t write, uint32_t file, uint32_t number)
{
	*cell = (struct cell){.write = write, .file = file, .cell = number, .mark = 0xce12};
	memset(cell->filler, (int)(write % 251 + 1), sizeof(cell->filler));
}

/* --- looking at a state ----------------------------------------------------------------------- */

/* Which file this is, by its first sound cell; -1: it has none; what is no cell is torn. */
static int read_file(int fd, uint32_t content[CELLS], bool *ret_torn)
{
	int file = -1;

	*ret_torn = false;
	for (uint32_t i = 0; i < CELLS; i++) {
		struct cell cell = {0}, expected;

		content[i] = 0;
		if (pread(fd, &cell, CELL, (off_t)i * CELL) <= 0 || cell.mark == 0)
			continue;
		fill_cell(&expected, cell.write, cell.file, i);
		if (memcmp(&cell, &expected, CELL) != 0 || cell.file >= FILES ||
			(file >= 0 && cell.file != (uint32_t)file)) {
			*ret_torn = true;
			continue;
		}
		file = (int)cell.file;
		content[i] = cell.write;
	}
	return file;
}

static void check_bytes(int index, int fd, int expected)
{
	uint32_t content[CELLS];
	bool torn;
	int file = read_file(fd, content, &torn);

	if (expected < 0)
		expected = file;
	if (expected < 0)
		return;
	if (file >= 0 && file != expected)
		crash_failed(life.crash, "%s is file %d instead of %d", name_of(index), file, expected);
	for (uint32_t i = 0; i < CELLS; i++)
		if (content[i] < life.files[expected].promised[i])
			crash_failed(life.crash, "%s (file %d), cell %u: write %u is there, %u was synced",
				name_of(index), expected, i, content[i], life.files[expected].promised[i]);
}

static void check_export(const char *path)
{
	int dirfd = open(path, O_RDONLY | O_DIRECTORY);

	for (int i = 0; i < NAMES + REPLACED; i++) {
		const struct known_name *name = &life.names[i];
		int fd = dirfd < 0 ? -1 : openat(dirfd, name_of(i), O_RDONLY);

		if (fd < 0 && name->promised && name->file >= 0)
			crash_failed(life.crash, "%s is gone, its directory was synced", name_of(i));
		if (fd >= 0 && name->promised && name->file < 0)
			crash_failed(life.crash, "%s is back, its directory was synced without it", name_of(i));
		if (fd >= 0)
			check_bytes(i, fd, name->promised ? name->file : -1);
		if (fd >= 0 && i >= NAMES) {
			uint32_t content[CELLS];
			bool torn;

			if (read_file(fd, content, &torn) < 0 || torn || content[CELLS - 1] == 0)
				crash_failed(
					life.crash, "%s is empty or torn: what replaced it was synced", name_of(i));
		}
		if (fd >= 0)
			close(fd);
	}
	if (dirfd >= 0)
		close(dirfd);
}

/* The copy lies elsewhere: the state directory must not complain of that. */
static void forget_mark(const char *path)
{
	char file[128], *text;
	size_t length;

	snprintf(file, sizeof(file), "%s/export", path);
	if (kr_read_file(AT_FDCWD, file, 4096, &text, &length) < 0)
		return;
	if (strcmp(text, life.mark) != 0 && life.mark[0])
		crash_failed(life.crash, "the state directory's 'export' is torn");
	free(text);
	unlink(file);
}

static void check_state(const char *path, const char *export)
{
	const struct kr_state_facts *facts;
	struct kr_state *state;
	int err;

	forget_mark(path);
	if (mkdir(export, 0700) < 0 && errno != EEXIST)
		abort();
	err = kr_state_open(path, export, false, &state);
	if (err) {
		crash_failed(life.crash, "the state directory cannot be opened: %s", kr_fail_reason());
		return;
	}
	facts = kr_state_facts(state);
	if (facts->instance <= life.highest_instance)
		crash_failed(life.crash, "instance %llu is given out again", (unsigned long long)facts->instance);
	if (life.identified &&
		(memcmp(facts->export_id, life.export_id, 16) != 0 || memcmp(facts->secret, life.secret, 16) != 0))
		crash_failed(life.crash, "the export has another identity");
	kr_state_close(state);
}

static void before_call(void)
{
	struct crash *crash = life.crash;
	enum disk_style style = (enum disk_style)chance(DISK_STYLES);
	char export[100], state[100], instance[120];

	if (crash->failure || crash->points >= crash->wanted || !one_in(life.sample))
		return;
	crash_empty(crash->state);
	disk_make(crash->state, style, life.call_began + chance(disk_events() - life.call_began + 1));
	snprintf(export, sizeof(export), "%s/export", crash->state);
	snprintf(state, sizeof(state), "%s/state", crash->state);
	snprintf(instance, sizeof(instance), "%s/instance", state);
	if (crash->broken == BROKEN_STATE)
		unlink(instance);
	check_export(export);
	check_state(state, export);
	crash->points++;
	crash->powers += style != DISK_WHOLE;
}

/* --- the life --------------------------------------------------------------------------------- */

static void called(void)
{
	disk_before_call();
	life.call_began = disk_events();
}

static void must(int err, const char *what)
{
	if (err)
		crash_failed(life.crash, "%s: %s (%s)", what, strerror(-err), kr_fail_reason());
}

static void write_cells(int file, uint32_t from, uint32_t count)
{
	struct cell cells[CELLS];
	struct kr_write_piece piece = {.offset = from * CELL, .data = cells, .length = count * CELL};

	life.last_write++;
	for (uint32_t i = 0; i < count; i++)
		fill_cell(&cells[i], life.last_write, (uint32_t)file, from + i);
	must(kr_export_pwritev(life.export, &life.files[file].fid, &piece, 1), "pwritev");
	for (uint32_t i = 0; i < count; i++)
		life.files[file].content[from + i] = life.last_write;
	called();
}

static void sync_file(int file)
{
	if (life.crash->broken != BROKEN_SYNC)
		must(kr_export_fsync(life.export, &life.files[file].fid, one_in(2)), "fsync");
	memcpy(life.files[file].promised, life.files[file].content, sizeof(life.files[file].content));
	called();
}

static void sync_root(void)
{
	must(kr_export_fsync(life.export, &life.root, false), "fsync of the directory");
	for (int i = 0; i < NAMES + REPLACED; i++)
		life.names[i].promised = true;
	called();
}

static int make_file(const char *name)
{
	struct kr_create create = {.name = name, .mode = S_IFREG | 0644, .flags = KR_OPEN_BOTH, .exclusive = true};
	struct kr_attr attr;
	bool created;
	int file = life.file_count++;

	must(kr_export_create(life.export, NULL, &life.root, &create, &created, &life.files[file].fid, &attr),
		"create");
	called();
	kr_export_release(life.export, &life.files[file].fid, 1);
	called();
	return file;
}

static void change(int index, int file)
{
	life.names[index] = (struct known_name){.file = file};
}

/* The idiom: under the name is always one whole file. */
static void replace(int index)
{
	int file;

	must(kr_export_remove(life.export, NULL, &life.root, "temporary", false, 0, NULL) == -ENOENT ? 0 : 0, "remove");
	called();
	file = make_file("temporary");
	write_cells(file, 0, CELLS / 2);
	write_cells(file, CELLS / 2, CELLS - CELLS / 2);
	sync_file(file);
	life.names[index].promised = false;
	must(kr_export_rename(life.export, NULL, &life.root, "temporary", &life.root, name_of(index), 0, 0, NULL),
		"rename");
	change(index, file);
	called();
}

static void remove_name(int index)
{
	if (life.names[index].file < 0)
		return;
	life.names[index].promised = false;
	must(kr_export_remove(life.export, NULL, &life.root, name_of(index), false, 0, NULL), "remove");
	change(index, -1);
	called();
}

static void link_name(int from, int to)
{
	struct kr_attr attr;

	if (life.names[from].file < 0 || life.names[to].file >= 0)
		return;
	life.names[to].promised = false;
	must(kr_export_link(life.export, NULL, &life.files[life.names[from].file].fid, &life.root, name_of(to), &attr),
		"link");
	change(to, life.names[from].file);
	called();
}

static void start(void)
{
	struct kr_export_options options = {0};
	char export[100], state[100];
	size_t length;
	char *text;
	int err;

	snprintf(export, sizeof(export), "%s/export", life.crash->live);
	snprintf(state, sizeof(state), "%s/state", life.crash->live);
	err = kr_state_open(state, export, false, &life.state);
	if (err) {
		crash_failed(life.crash, "the live state directory does not open: %s", kr_fail_reason());
		return;
	}
	life.highest_instance = kr_state_facts(life.state)->instance;
	memcpy(life.export_id, kr_state_facts(life.state)->export_id, 16);
	memcpy(life.secret, kr_state_facts(life.state)->secret, 16);
	life.identified = true;
	if (kr_read_file(kr_state_dir(life.state), "export", sizeof(life.mark) - 1, &text, &length) == 0) {
		snprintf(life.mark, sizeof(life.mark), "%s", text);
		free(text);
	}
	options.path = export;
	memcpy(options.secret, life.secret, 16);
	called();
	must(kr_export_new(&options, &life.export), "the export");
	if (!life.crash->failure)
		must(kr_export_walk(life.export, NULL, "", &life.root, &(struct kr_attr){0}), "the root");
	called();
}

static void stop(void)
{
	kr_export_free(life.export);
	kr_state_close(life.state);
	life.export = NULL;
	life.state = NULL;
}

static void step(void)
{
	int index = (int)chance(NAMES), file = life.names[index].file;
	uint32_t from = (uint32_t)chance(CELLS);

	switch (chance(24)) {
	case 0:
	case 1:
	case 2:
		if (file < 0) {
			life.names[index].promised = false;
			change(index, make_file(name_of(index)));
		}
		break;
	case 3:
	case 4:
	case 5:
		replace(NAMES + (int)chance(REPLACED));
		break;
	case 6:
		remove_name(index);
		break;
	case 7:
		link_name(index, (int)chance(NAMES));
		break;
	case 8:
		sync_root();
		break;
	case 9:
		disk_write_back();
		break;
	case 10:
		if (one_in(6)) {
			stop();
			start();
		}
		break;
	case 11:
	case 12:
	case 13:
		if (file >= 0)
			sync_file(file);
		break;
	default:
		if (file >= 0)
			write_cells(file, from, (uint32_t)(1 + chance(CELLS - from)));
		break;
	}
}

void crash_server(struct crash *crash)
{
	uint64_t until = KR_MIN(crash->points + 400, crash->wanted);
	char export[100];

	memset(&life, 0, sizeof(life));
	life.crash = crash;
	life.sample = 2 + (uint32_t)chance(4);
	for (int i = 0; i < NAMES + REPLACED; i++)
		life.names[i].file = -1;
	crash_empty(crash->live);
	disk_begin(crash->live, crash->ordered, before_call);
	snprintf(export, sizeof(export), "%s/export", crash->live);
	if (mkdir(export, 0755) < 0)
		abort();
	disk_settle(); /* the administrator's directory, made long ago */
	start();
	while (crash->points < until && life.file_count < FILES - 2 && !crash->failure)
		step();
	if (life.export)
		stop();
	disk_end();
}
