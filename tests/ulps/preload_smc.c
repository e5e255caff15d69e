// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * For LD_PRELOAD: TCP sockets of a program are of family AF_SMC, as smc_run(8) makes them, which
 * Debian 12 does not have.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define SMC_TYPES (SOCK_NONBLOCK | SOCK_CLOEXEC)

int socket(int domain, int type, int protocol)
{
	int (*next)(int, int, int);

	*(void **)&next = dlsym(RTLD_NEXT, "socket");
	if ((domain != AF_INET && domain != AF_INET6) || (type & ~SMC_TYPES) != SOCK_STREAM ||
	    (protocol && protocol != IPPROTO_TCP))
		return next(domain, type, protocol);
	/* AF_SMC has protocols of its own: 0 for IPv4, 1 for IPv6. */
	return next(AF_SMC, type, domain == AF_INET6);
}
