/* Tags of the layer's messages, on communicators of its own. Each pair of ranks keeps its messages of one tag in order.
 */
#ifndef KR_MPIIO_TAGS_H
#define KR_MPIIO_TAGS_H

enum kr_tag { KR_TAG_VIEW = 1, KR_TAG_WRITE, KR_TAG_READ, KR_TAG_CLOCK, KR_TAG_NONE };

#endif
