/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asking the host, that is tests/e2e/run, to do something to the machine: the
 * guest has a serial port for that, which $UNETMM_HOST names.
 */
#ifndef TEST_ASK_H
#define TEST_ASK_H

/*
 * Requests: "link on", "link off", "set PROPERTY VALUE" (of the card), "unplug",
 * "plug", "disk stall" (requests to /dev/vda wait, but for one), "disk go",
 * "move" (the machine, to another QEMU).  Skips the test if nobody is there to ask.
 */
void ask_host(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* TEST_ASK_H */
