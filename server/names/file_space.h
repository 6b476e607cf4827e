/* FALLOCATE, SEEK and COPY: operations on the bytes of files at the server, under its own leases. */
#ifndef KR_SERVER_FILE_SPACE_H
#define KR_SERVER_FILE_SPACE_H

struct kr_server;

void kr_file_space_register(struct kr_server *server);

#endif
