/* What a file asks of the flusher, which stands above it (fuse/writeback/flush.h) and registers this table with
 * kr_files_new.  Loop thread, file->lock not held, unless said otherwise.
 */
#ifndef KR_FUSE_FLUSH_HOOKS_H
#define KR_FUSE_FLUSH_HOOKS_H

#include <stdbool.h>

struct kr_file;
struct kr_flush;

struct kr_flush_hooks {
	/* The flusher's state of FILE, which is being made.  Any thread, with the table's lock. */
	struct kr_flush *(*make)(struct kr_file *file);
	/* FILE is being freed, and its state with it.  The journal keeps its unflushed bytes. */
	void (*free)(struct kr_file *file);
	/* Everything dirty now shall be applied soon.  Ends in kr_file_step(file) with file->flushed_seq or
	 * file->error_count grown; a file without dirty bytes gets no step. */
	void (*ask)(struct kr_file *file);
	/* kr_file_may_flush(file) may have become true. */
	void (*step)(struct kr_file *file);
	/* Bytes are dirty, sent or applied: the file must stay in memory. */
	bool (*is_busy)(struct kr_file *file);
	/* A FLUSH is on its way.  Any lock. */
	bool (*is_sending)(const struct kr_file *file);
	/* The file's bytes can go nowhere: the file is gone, or its bytes are damaged.  Any lock. */
	bool (*is_hopeless)(const struct kr_file *file);
	/* No program can read FILE's unflushed bytes any more: the flusher drops them, unless they are late. */
	void (*discard)(struct kr_file *file);
	/* The node sends refused bytes once more, or must first write into the journal's directory that they were
	 * refused: it gives back no lease of the file before. */
	bool (*keeps_leases)(struct kr_file *file);
	/* The node is about to give a lease of the file back: the server must judge refused bytes before it takes them.
	 */
	void (*uncovered)(struct kr_file *file);
};

#endif
