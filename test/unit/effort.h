/* How much of it tests do that could go on as long as one likes. */
#ifndef KR_TEST_UNIT_EFFORT_H
#define KR_TEST_UNIT_EFFORT_H

/* AMOUNT, or a part of it where sanitizers make the code many times slower: there the kinds of things that happen matter,
 * not how often they do. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KR_EFFORT(amount, part) (part)
#else
#define KR_EFFORT(amount, part) (amount)
#endif

#endif
