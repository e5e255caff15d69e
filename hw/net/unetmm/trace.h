#include "trace/trace-hw_net_unetmm.h"
