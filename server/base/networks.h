/* The networks that a server lets in. Pure. */
#ifndef KR_SERVER_NETWORKS_H
#define KR_SERVER_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/config/options.h"

struct kr_network {
	int family; /* AF_INET, AF_INET6 */
	uint8_t address[16];
	unsigned bits;
};

/* "10.1.0.0/16", "fd00::/8", or one address. -EINVAL with a reason. */
int kr_network_parse(const char *text, struct kr_network *ret_network);
/* Whether HOST (a numeric address, perhaps with a %zone) is in one of NETWORKS, each as kr_network_parse takes it; with
 * none everybody is. */
bool kr_networks_allow(const struct kr_strings *networks, const char *host);

#endif
