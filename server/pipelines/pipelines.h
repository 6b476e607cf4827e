/* Read pipelines: which node of a ring pulls a file's blocks from which.  Loop thread. */
#ifndef KR_SERVER_PIPELINES_H
#define KR_SERVER_PIPELINES_H

struct kr_data;

/* Registers JOIN and REPARENT, and the hooks of the flush room. */
void kr_pipelines_register(struct kr_data *data);

#endif
