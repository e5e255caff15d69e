/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cards and the driver as sysfs shows them.
 */
#ifndef UNETMM_TOOLS_CARDS_H
#define UNETMM_TOOLS_CARDS_H

#include <stdbool.h>
#include <stddef.h>

/* The unit tests have their own. */
#ifndef UNETMM_SYSFS
#define UNETMM_SYSFS            "/sys"
#endif
#ifndef UNETMM_DEVICE_PREFIX
#define UNETMM_DEVICE_PREFIX    "/dev/unetmm"
#endif

#define MOST_CARDS      64
#define MOST_PARAMETERS 32
#define TEXT_CHARS      64

/* A driver's parameter; `flag`: it is Y or N. */
struct parameter {
    char name[TEXT_CHARS];
    char value[TEXT_CHARS];
    bool flag;
};

/*
 * The numbers of the cards that the driver has, ascending; returns how many,
 * 0 if there is no driver.
 */
unsigned find_cards(unsigned numbers[MOST_CARDS]);

/* The driver's parameters by name; returns how many. */
unsigned find_parameters(struct parameter found[MOST_PARAMETERS]);

/* The number in a device's name, or -1 if it is none of the driver's names. */
int card_number(const char *device);

/* The PCI address of a card, "" if it cannot be told. */
void card_pci(unsigned number, char text[TEXT_CHARS]);

/* One line of an attribute of the card's PCI function; false: none. */
bool card_attribute(unsigned number, const char *name, char text[TEXT_CHARS]);

#endif /* UNETMM_TOOLS_CARDS_H */
