// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: registers.
 *
 * A read of all ones where that cannot be a value means that the card has left
 * the bus; from then on nothing is read or written any more.
 */
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/io.h>
#include <linux/timekeeping.h>

#include "unetmm_wire.h"
#include "base/base.h"
#include "param/param.h"
#include "trace/trace.h"

#define UNETMM_MOST_REGIONS	65536	/* that make sense; also of imports and flows */
#define UNETMM_MOST_TLB		1048576	/* entries, victims apart; as the card has it */

#define UNETMM_GONE		U32_MAX

/*
 * How long the card is waited for before it is given up: above a second, which one
 * page's DMA may take (x-dma-page-ns).  Time between two looks counts for at most
 * UNETMM_LOOK_NS, so that neither a clock that jumps (a guest that was stopped or
 * has migrated) nor a virtual CPU that did not run ends the wait alone.
 */
#define UNETMM_PATIENCE_NS	(5 * NSEC_PER_SEC)
#define UNETMM_LOOK_NS		(10 * NSEC_PER_MSEC)

u32 unetmm_read(struct unetmm_dev *dev, u32 reg)
{
	u32 value = readl(dev->regs + reg);

	/* Counters may well be all ones; the identity tells. */
	if (value == UNETMM_GONE && unetmm_reachable(dev) &&
	    readl(dev->regs + UNETMM_REG_ID) == UNETMM_GONE)
		unetmm_fail(dev, "the card has left the bus");
	return value;
}

void unetmm_write(struct unetmm_dev *dev, u32 reg, u32 value)
{
	writel(value, dev->regs + reg);
}

/* Here and below: in any context, also while time is being set. */
void unetmm_patience_begin(struct unetmm_patience *patience)
{
	patience->seen_ns = ktime_get_mono_fast_ns();
	patience->waited_ns = 0;
}

/* Called after each look at the card.  False: it is to be given up. */
bool unetmm_patient(struct unetmm_patience *patience)
{
	u64 now = ktime_get_mono_fast_ns();

	/* Right after an update of the clock it may be a little behind. */
	if (now > patience->seen_ns) {
		patience->waited_ns += min_t(u64, now - patience->seen_ns,
					     UNETMM_LOOK_NS);
		patience->seen_ns = now;
	}
	return patience->waited_ns < UNETMM_PATIENCE_NS;
}

/* Resets all but PCI; afterwards the card does no DMA. */
int unetmm_reset_card(struct unetmm_dev *dev)
{
	struct unetmm_patience patience;

	unetmm_write(dev, UNETMM_REG_CTRL, UNETMM_CTRL_RESET);
	unetmm_patience_begin(&patience);
	do {
		u32 ctrl = readl(dev->regs + UNETMM_REG_CTRL);

		if (ctrl == UNETMM_GONE)
			return -ENODEV;
		if (!(ctrl & UNETMM_CTRL_RESET))
			return 0;
		usleep_range(100, 200);
	} while (unetmm_patient(&patience));
	return -EIO;
}

static int unetmm_check_identity(struct unetmm_dev *dev)
{
	struct device *d = &dev->pdev->dev;
	u32 id = readl(dev->regs + UNETMM_REG_ID);
	u32 version = readl(dev->regs + UNETMM_REG_VERSION);

	if (id != UNETMM_ID_VALUE) {
		dev_err(d, "not a unetmm card: id %#010x\n", id);
		return -ENODEV;
	}
	if ((version ^ UNETMM_VERSION_VALUE) & UNETMM_VERSION_MAJOR) {
		dev_err(d, "the card has interface version %#010x, this driver needs %#010x\n",
			version, UNETMM_VERSION_VALUE);
		return -ENODEV;
	}
	dev->hw.version = version;
	return 0;
}

/* The products that other files make of these numbers do not overflow. */
static bool unetmm_check_tlb(const struct unetmm_limits *hw)
{
	return is_power_of_2(hw->tlb_sets) && hw->tlb_ways &&
	       hw->tlb_ways <= UNETMM_MOST_TLB / hw->tlb_sets &&
	       hw->tlb_victims <= UNETMM_MOST_TLB;
}

static int unetmm_check_limits(struct unetmm_dev *dev)
{
	struct unetmm_limits *hw = &dev->hw;
	struct device *d = &dev->pdev->dev;

	if (hw->db_stride < PAGE_SIZE) {
		dev_err(d, "the card's doorbells are %u bytes apart: pages have %lu\n",
			hw->db_stride, PAGE_SIZE);
		return -EOPNOTSUPP;
	}
	if (hw->endpoints < 2 || hw->endpoints > U16_MAX || hw->spaces < 2 ||
	    hw->spaces > U16_MAX || !hw->channels || hw->channels > U16_MAX ||
	    hw->max_log2 < UNETMM_CMD_LOG2 ||
	    hw->max_log2 > UNETMM_MAX_RING_LOG2 ||
	    hw->user_mtu < UNETMM_MIN_MTU ||
	    hw->user_mtu > UNETMM_MAX_PAYLOAD ||
	    hw->regions > UNETMM_MOST_REGIONS ||
	    hw->imports > UNETMM_MOST_REGIONS ||
	    hw->flows > UNETMM_MOST_REGIONS ||
	    hw->backup_bits > U16_MAX ||
	    (u64)hw->db_stride * hw->endpoints > dev->doorbell_bytes ||
	    (u64)hw->proxy_pages * PAGE_SIZE >
	    pci_resource_len(dev->pdev, UNETMM_BAR_PROXY) ||
	    (u64)hw->window_pages * PAGE_SIZE >
	    pci_resource_len(dev->pdev, UNETMM_BAR_WINDOWS) ||
	    !unetmm_check_tlb(hw) || !is_valid_ether_addr(hw->mac)) {
		dev_err(d, "the card reports limits that are not valid\n");
		return -EIO;
	}
	hw->max_buf_pages = min_t(u32, hw->tlb_sets * hw->tlb_ways + hw->tlb_victims,
				  UNETMM_MAX_BUF_PAGES);
	return 0;
}

static void unetmm_read_mac(struct unetmm_dev *dev)
{
	u32 lo = readl(dev->regs + UNETMM_REG_MAC_LO);
	u32 hi = readl(dev->regs + UNETMM_REG_MAC_HI);
	int i;

	for (i = 0; i < 4; i++)
		dev->hw.mac[i] = lo >> (8 * i);
	for (; i < ETH_ALEN; i++)
		dev->hw.mac[i] = hi >> (8 * (i - 4));
}

int unetmm_read_limits(struct unetmm_dev *dev)
{
	struct unetmm_limits *hw = &dev->hw;
	int ret;

	ret = unetmm_check_identity(dev);
	if (ret)
		return ret;
	hw->caps = readl(dev->regs + UNETMM_REG_CAPS);
	hw->user_mtu = readl(dev->regs + UNETMM_REG_USER_MTU);
	hw->db_stride = readl(dev->regs + UNETMM_REG_DB_STRIDE);
	hw->endpoints = readl(dev->regs + UNETMM_REG_ENDPOINTS);
	hw->spaces = readl(dev->regs + UNETMM_REG_SPACES);
	hw->channels = readl(dev->regs + UNETMM_REG_CHANNELS);
	hw->max_log2 = readl(dev->regs + UNETMM_REG_MAX_LOG2);
	hw->tlb_sets = readl(dev->regs + UNETMM_REG_TLB_SETS);
	hw->tlb_ways = readl(dev->regs + UNETMM_REG_TLB_WAYS);
	hw->tlb_victims = readl(dev->regs + UNETMM_REG_TLB_VICTIMS);
	hw->pretranslate = readl(dev->regs + UNETMM_REG_PRETRANSLATE);
	hw->max_faults = readl(dev->regs + UNETMM_REG_MAX_FAULTS);
	hw->sources = readl(dev->regs + UNETMM_REG_SOURCES);
	hw->policies = readl(dev->regs + UNETMM_REG_POLICIES);
	/* A card without such channels may not have the register either. */
	if (hw->caps & UNETMM_CAP_RELIABLE)
		hw->reliable = readl(dev->regs + UNETMM_REG_RELIABLE);
	else
		hw->reliable = 0;
	hw->regions = 0;
	hw->imports = 0;
	if (hw->reliable && hw->caps & UNETMM_CAP_ONE_SIDED) {
		hw->regions = readl(dev->regs + UNETMM_REG_REGIONS);
		hw->imports = readl(dev->regs + UNETMM_REG_IMPORTS);
	}
	hw->window_pages = 0;
	if (hw->caps & UNETMM_CAP_WINDOWS)
		hw->window_pages = readl(dev->regs + UNETMM_REG_WINDOW_PAGES);
	hw->proxy_pages = 0;
	if (hw->caps & UNETMM_CAP_PROXIES)
		hw->proxy_pages = readl(dev->regs + UNETMM_REG_PROXY_PAGES);
	hw->sysbuf_slots = 0;
	if (hw->caps & UNETMM_CAP_SYSBUF)
		hw->sysbuf_slots = readl(dev->regs + UNETMM_REG_SYSBUF_SLOTS);
	hw->flows = 0;
	if (hw->caps & UNETMM_CAP_ETHERNET)
		hw->flows = readl(dev->regs + UNETMM_REG_FLOWS);
	hw->backup_bits = 0;
	if (hw->caps & UNETMM_CAP_BACKUP)
		hw->backup_bits = readl(dev->regs + UNETMM_REG_BACKUP_BITS);
	if (!hw->backup_bits)
		hw->policies &= ~BIT(UNETMM_POLICY_BACKUP);
	/* Without a system buffer there is nowhere to redirect to. */
	if (!hw->sysbuf_slots || !hw->reliable)
		hw->policies &= ~BIT(UNETMM_POLICY_REDIRECT);
	if (!hw->reliable)
		hw->policies &= ~BIT(UNETMM_POLICY_RNR);
	unetmm_read_mac(dev);
	return unetmm_check_limits(dev);
}

bool unetmm_link_up(struct unetmm_dev *dev)
{
	return unetmm_read(dev, UNETMM_REG_STATUS) & UNETMM_STATUS_LINK;
}

/* Waits until the card has no page of the last invalidation in hand; false: given up. */
bool unetmm_invalidate_wait(struct unetmm_dev *dev)
{
	struct unetmm_patience patience;

	lockdep_assert_held(&dev->reg_lock);
	unetmm_patience_begin(&patience);
	do {
		/* All ones: the card and its DMA are gone. */
		if (!(unetmm_read(dev, UNETMM_REG_INV_CTRL) & UNETMM_INV_BUSY) ||
		    !unetmm_reachable(dev))
			return true;
		udelay(1);
	} while (unetmm_patient(&patience));
	return false;
}

/* For a card that executes no commands, or does not know that one. */
void unetmm_invalidate_registers(struct unetmm_dev *dev, u32 space, u64 start,
				 u64 last)
{
	lockdep_assert_held(&dev->reg_lock);
	unetmm_write(dev, UNETMM_REG_INV_SPACE, space);
	unetmm_write(dev, UNETMM_REG_INV_START_LO, lower_32_bits(start));
	unetmm_write(dev, UNETMM_REG_INV_START_HI, upper_32_bits(start));
	unetmm_write(dev, UNETMM_REG_INV_LAST_LO, lower_32_bits(last));
	unetmm_write(dev, UNETMM_REG_INV_LAST_HI, upper_32_bits(last));
	unetmm_write(dev, UNETMM_REG_INV_CTRL, 1);
}

static u64 unetmm_read_latched(struct unetmm_dev *dev, u32 reg)
{
	u32 lo, hi;

	lockdep_assert_held(&dev->reg_lock);
	if (!unetmm_reachable(dev))
		return 0;
	lo = unetmm_read(dev, reg);
	hi = unetmm_read(dev, reg + 4);
	return (u64)hi << 32 | lo;
}

u64 unetmm_read_counter(struct unetmm_dev *dev, u32 n)
{
	u64 value;

	spin_lock(&dev->reg_lock);
	value = unetmm_read_latched(dev, UNETMM_REG_COUNTER(n));
	spin_unlock(&dev->reg_lock);
	return value;
}

u64 unetmm_read_ep_counter(struct unetmm_dev *dev, u32 ep, u32 n)
{
	u64 value;

	spin_lock(&dev->reg_lock);
	if (unetmm_reachable(dev))
		unetmm_write(dev, UNETMM_REG_EP_SEL, ep);
	value = unetmm_read_latched(dev, UNETMM_REG_EP_COUNTER(n));
	spin_unlock(&dev->reg_lock);
	return value;
}

void unetmm_params_apply(struct unetmm_dev *dev)
{
	unetmm_write(dev, UNETMM_REG_RING(UNETMM_RING_NOTIFY) +
		     UNETMM_RING_MODERATE,
		     unetmm_param(dev, UNETMM_P_notify_moderate_ns));
	unetmm_write(dev, UNETMM_REG_RING(UNETMM_RING_FAULT) +
		     UNETMM_RING_MODERATE,
		     unetmm_param(dev, UNETMM_P_fault_moderate_ns));
}

void unetmm_param_set(struct unetmm_dev *dev, enum unetmm_param which,
		      u32 value)
{
	down_read(&dev->rwsem);
	WRITE_ONCE(dev->params.value[which], value);
	/* The value before the bit that says that there is one. */
	smp_mb__before_atomic();
	set_bit(which, dev->params.own);
	if (unetmm_running(dev))
		unetmm_params_apply(dev);
	up_read(&dev->rwsem);
}
