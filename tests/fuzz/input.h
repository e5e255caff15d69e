/*
 * unetmm: fuzzing: reading an input
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

/* The unread part of an input; beyond its end all is zero. */
typedef struct FuzzIn {
    const uint8_t *data;
    size_t left;
} FuzzIn;

uint8_t fuzz_u8(FuzzIn *in);
uint16_t fuzz_u16(FuzzIn *in);
uint32_t fuzz_u32(FuzzIn *in);
uint64_t fuzz_u64(FuzzIn *in);
/* As many as there are, the rest zero. */
void fuzz_bytes(FuzzIn *in, void *buf, size_t n);
uint32_t fuzz_below(FuzzIn *in, uint32_t n);

/* One input, for libFuzzer and replay.c */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* FUZZ_INPUT_H */
