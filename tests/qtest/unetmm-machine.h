/*
 * unetmm qtests: machines with a card on a wire that the test holds, and their
 * migration by a file
 *
 * A machine that a card has left can still be asked for the frames it sent.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */
#ifndef UNETMM_MACHINE_H
#define UNETMM_MACHINE_H

#include "unetmm-lib.h"

#define QUNETMM_PAGE_NS     1000        /* a page takes so long to move */

/* One QEMU, the test's end of its wire, and its monitor. */
typedef struct QUnetmmMachine {
    QTestState *qts;
    QGuestAllocator alloc;
    QPCIBus *bus;
    QUnetmm card;
    int wire;
    char *said;                 /* path of its stderr */
} QUnetmmMachine;

/* `properties` of the card, from a comma on; `more` of the command line. */
void qunetmm_machine_up(QUnetmmMachine *m, const char *properties,
                        const char *more);
void qunetmm_machine_down(QUnetmmMachine *m);
/* Saves the machine, which stands still then; the file's name, to be freed. */
char *qunetmm_machine_save(QUnetmmMachine *m);
/* A second machine that is given the file.  False: it has refused it. */
bool qunetmm_machine_restore(QUnetmmMachine *to, const char *properties,
                             const char *path);
/* The same card, its driver's memory and all, in another machine. */
void qunetmm_machine_move(QUnetmmMachine *from, QUnetmmMachine *to,
                          const char *properties);
/*
 * The next frame of the card; 0: there is none.  QEMU announces the address
 * of a card that it has restored, in frames of another kind.
 */
size_t qunetmm_machine_frame(QUnetmmMachine *m, uint8_t *frame, int flags);

#endif /* UNETMM_MACHINE_H */
