/* Writes the lines of a phase trace; see trace_format.h.  No state, any thread. */
#include "mpiio/twophase/trace_format.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *const phase_names[KR_TRACE_PHASES] = {"lists", "read", "exchange", "write"};

const char *kr_trace_phase_name(enum kr_trace_phase phase)
{
	return (unsigned)phase < KR_TRACE_PHASES ? phase_names[phase] : "?";
}

struct line {
	char *buffer;
	size_t size, length;
};

static void put(struct line *line, const char *text, size_t length)
{
	if (line->length + length <= line->size)
		memcpy(line->buffer + line->length, text, length);
	line->length += length;
}

/* The length of the UTF-8 sequence at TEXT (RFC 3629: no surrogates, nothing overlong), 0 when there is none. */
static size_t sequence_length(const unsigned char *text)
{
	static const struct {
		unsigned char first, last, low, high; /* of the first byte; of the second */
		size_t length;
	} forms[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2},
		{0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3},
		{0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3},
		{0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4},
		{0xf4, 0xf4, 0x80, 0x8f, 4},
	};
	if (*text < 0x80)
		return 1;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (*text < forms[i].first || *text > forms[i].last)
			continue;
		if (text[1] < forms[i].low || text[1] > forms[i].high)
			return 0;
		for (size_t k = 2; k < forms[i].length; k++)
			if ((text[k] & 0xc0) != 0x80)
				return 0;
		return forms[i].length;
	}
	return 0;
}

static void put_string(struct line *line, const char *string)
{
	put(line, "\"", 1);
	for (const char *at = string; *at;) {
		unsigned char c = (unsigned char)*at;
		size_t length = sequence_length((const unsigned char *)at);
		char escaped[8];
		if (length == 0) {
			put(line, "\\ufffd", 6);
			at++;
		} else if (c < 0x20 || c == 0x7f) {
			put(line, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
			at++;
		} else {
			if (c == '"' || c == '\\')
				put(line, "\\", 1);
			put(line, at, length);
			at += length;
		}
	}
	put(line, "\"", 1);
}

size_t kr_trace_format(const struct kr_trace_event *event, char *buffer, size_t size)
{
	struct line line = {.buffer = buffer, .size = size};
	char numbers[320];
	put(&line, "{\"file\":", 8);
	put_string(&line, event->file);
	int length = snprintf(numbers, sizeof numbers,
		",\"open\":%" PRIu64 ",\"call\":%" PRIu64 ",\"op\":\"%s\",\"rank\":%u,\"node\":%u,\"round\":%" PRIu64
		",\"slot\":%u,\"phase\":\"%s\",\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"bytes\":%" PRIu64 "}\n",
		event->open, event->call, event->op, event->rank, event->node, event->round, event->slot,
		kr_trace_phase_name(event->phase), event->start_ns, event->end_ns, event->bytes);
	put(&line, numbers, (size_t)length);
	return line.length;
}
