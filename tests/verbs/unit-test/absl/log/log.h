/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The macros of Abseil's log that rdma-unit-test uses: Debian 12's Abseil is older than its
 * log.  A line of level ERROR or FATAL goes to the standard error; FATAL ends the program.
 */
#ifndef UNETMM_UNIT_TEST_ABSL_LOG_LOG_H
#define UNETMM_UNIT_TEST_ABSL_LOG_LOG_H

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace unetmm_log {

enum Level { kINFO, kWARNING, kERROR, kFATAL };

class Line {
public:
    Line(Level level, const char *file, int line) : level_(level)
    {
        text_ << file << ":" << line << ": ";
    }
    ~Line()
    {
        if (level_ >= kERROR) {
            std::cerr << text_.str() << std::endl;
        }
        if (level_ == kFATAL) {
            std::abort();
        }
    }
    std::ostream &stream() { return text_; }

private:
    Level level_;
    std::ostringstream text_;
};

/* Gives both branches of a condition one type. */
struct Nothing {
    void operator&(std::ostream &) {}
};

} // namespace unetmm_log

#define LOG(level) ::unetmm_log::Line(::unetmm_log::k##level, __FILE__, __LINE__).stream()
#define LOG_IF(level, condition) !(condition) ? (void)0 : ::unetmm_log::Nothing() & LOG(level)
/* The program's log is for a person who looks into a test: no line is left out. */
#define LOG_EVERY_N_SEC(level, seconds) LOG(level)

#endif
