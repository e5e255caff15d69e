/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The main program of rdma-unit-test for the card, in place of the suite's own. */
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/flags/parse.h"
#include "gtest/gtest.h"
#include "infiniband/verbs.h"
#include "internal/introspection_registrar.h"
#include "public/introspection.h"

namespace {

class IntrospectionUnetmm : public rdma_unit_test::NicIntrospection {
public:
    IntrospectionUnetmm(const std::string &name, const ibv_device_attr &attr)
        : NicIntrospection(name, attr)
    {
    }

    /* The card is emulated: the suite makes fewer and shorter messages. */
    bool IsSlowNic() const override { return true; }
    /* The driver refuses a region without bytes. */
    bool SupportsZeroLengthMr() const override { return false; }

protected:
    /* None: unit-test-own.txt has the tests that fail, and they run. */
    const absl::flat_hash_map<TestcaseKey, std::string> &GetDeviations() const override
    {
        static const absl::flat_hash_map<TestcaseKey, std::string> none;
        return none;
    }
};

} // namespace

int main(int argc, char **argv)
{
    testing::InitGoogleTest(&argc, argv);
    absl::ParseCommandLine(argc, argv);
    rdma_unit_test::IntrospectionRegistrar::GetInstance().Register(
        "unetmm", [](const std::string &name, const ibv_device_attr &attr) {
            return new IntrospectionUnetmm(name, attr);
        });
    return RUN_ALL_TESTS();
}
