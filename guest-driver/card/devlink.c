// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * unetmm: devlink: the card's identity, its own parameters, its health.
 *
 * From the end of probe to the beginning of remove.  A card that is given up is
 * reported with a dump; nothing revives it unasked, since a reset ends the endpoints
 * of all processes: `devlink health recover` does.
 *
 * Locks: the instance's (devl) > dev->rwsem.  The report takes the former, so it is
 * a work of its own: unetmm_stop() waits for fail_work, with dev->rwsem.
 */
#include <linux/bitfield.h>
#include <linux/slab.h>

#include "compat/compat.h"
#include "card/card.h"
#include "base/base.h"
#include "param/param.h"

struct unetmm_health {
	struct unetmm_dev *dev;
	struct devlink_health_reporter *reporter;
	struct work_struct work;
};

/* ---- Identity ------------------------------------------------------------ */

static struct unetmm_dev *unetmm_devlink_dev(struct devlink *devlink)
{
	struct unetmm_health *health = devlink_priv(devlink);

	return health->dev;
}

static int unetmm_devlink_info(struct devlink *devlink,
			       struct devlink_info_req *req,
			       struct netlink_ext_ack *extack)
{
	struct unetmm_dev *dev = unetmm_devlink_dev(devlink);
	char text[24];
	int ret;

	ret = unetmm_devlink_name(req, UNETMM_NAME);
	if (ret)
		return ret;
	snprintf(text, sizeof(text), "%04x:%04x.%02x", dev->pdev->vendor,
		 dev->pdev->device, dev->pdev->revision);
	ret = devlink_info_version_fixed_put(req,
			DEVLINK_INFO_VERSION_GENERIC_BOARD_ID, text);
	if (ret)
		return ret;
	/* The version of the specification that the card follows. */
	snprintf(text, sizeof(text), "%u.%u",
		 (u32)FIELD_GET(UNETMM_VERSION_MAJOR, dev->hw.version),
		 (u32)FIELD_GET(UNETMM_VERSION_MINOR, dev->hw.version));
	return devlink_info_version_running_put(req,
			DEVLINK_INFO_VERSION_GENERIC_FW, text);
}

static const struct devlink_ops unetmm_devlink_ops = {
	.info_get = unetmm_devlink_info,
};

/* ---- Parameters ---------------------------------------------------------- */

#define UNETMM_DEVLINK_ID	(DEVLINK_PARAM_GENERIC_ID_MAX + 1)

#define UNETMM_PARAM_LIMIT_(name, value, least, most, help) { least, most },
static const struct {
	u32 least, most;
} unetmm_param_limits[UNETMM_NUM_PARAMS] = {
	UNETMM_PARAMS(UNETMM_PARAM_LIMIT_)
};

static UNETMM_DEVLINK_GET(unetmm_devlink_get)
{
	ctx->val.vu32 = unetmm_param(unetmm_devlink_dev(devlink),
				     id - UNETMM_DEVLINK_ID);
	return 0;
}

static UNETMM_DEVLINK_SET(unetmm_devlink_set)
{
	unetmm_param_set(unetmm_devlink_dev(devlink), id - UNETMM_DEVLINK_ID,
			 ctx->val.vu32);
	return 0;
}

static int unetmm_devlink_validate(struct devlink *devlink, u32 id,
				   UNETMM_DEVLINK_VALUE(value),
				   struct netlink_ext_ack *extack)
{
	u32 number = unetmm_devlink_u32(value);
	u32 which = id - UNETMM_DEVLINK_ID;

	if (number >= unetmm_param_limits[which].least &&
	    number <= unetmm_param_limits[which].most)
		return 0;
	NL_SET_ERR_MSG(extack, "the value is out of range: modinfo unetmm shows the limits");
	return -ERANGE;
}

#define UNETMM_PARAM_DEVLINK_(name, value, least, most, help) \
	DEVLINK_PARAM_DRIVER(UNETMM_DEVLINK_ID + UNETMM_P_##name, #name, \
			     DEVLINK_PARAM_TYPE_U32, \
			     BIT(DEVLINK_PARAM_CMODE_RUNTIME), \
			     unetmm_devlink_get, unetmm_devlink_set, \
			     unetmm_devlink_validate),
static const struct devlink_param unetmm_devlink_params[] = {
	UNETMM_PARAMS(UNETMM_PARAM_DEVLINK_)
};

/* ---- Health -------------------------------------------------------------- */

static int unetmm_dump_ring(struct unetmm_dev *dev, struct devlink_fmsg *fmsg,
			    const char *name, u32 ring, u32 reg)
{
	char text[32];

	snprintf(text, sizeof(text), "%s_%s", name,
		 reg == UNETMM_RING_PROD ? "prod" : "cons");
	return unetmm_fmsg(devlink_fmsg_u32_pair_put(fmsg, text,
				readl(dev->regs + UNETMM_REG_RING(ring) + reg)));
}

/* A card that has left the bus says all ones. */
static int unetmm_dump_registers(struct unetmm_dev *dev,
				 struct devlink_fmsg *fmsg)
{
	static const char * const rings[UNETMM_NUM_RINGS] = {
		[UNETMM_RING_CMD] = "cmd",
		[UNETMM_RING_CMDC] = "cmdc",
		[UNETMM_RING_FAULT] = "fault",
		[UNETMM_RING_NOTIFY] = "notify",
		[UNETMM_RING_BACKUP] = "backup",
	};
	static const struct {
		const char *name;
		u32 reg;
	} regs[] = {
		{ "id", UNETMM_REG_ID },
		{ "status", UNETMM_REG_STATUS },
		{ "ctrl", UNETMM_REG_CTRL },
		{ "events", UNETMM_REG_EVENTS },
	};
	int ret = 0;
	u32 i;

	for (i = 0; !ret && i < ARRAY_SIZE(regs); i++)
		ret = unetmm_fmsg(devlink_fmsg_u32_pair_put(fmsg, regs[i].name,
					readl(dev->regs + regs[i].reg)));
	for (i = 0; !ret && i < UNETMM_NUM_RINGS; i++)
		ret = unetmm_dump_ring(dev, fmsg, rings[i], i,
				       UNETMM_RING_PROD) ?:
		      unetmm_dump_ring(dev, fmsg, rings[i], i,
				       UNETMM_RING_CONS);
	return ret;
}

static int unetmm_health_dump(struct devlink_health_reporter *reporter,
			      struct devlink_fmsg *fmsg, void *context,
			      struct netlink_ext_ack *extack)
{
	struct unetmm_health *health = devlink_health_reporter_priv(reporter);
	struct unetmm_dev *dev = health->dev;
	const char *why = READ_ONCE(dev->why);
	int ret;
	u32 i;

	ret = unetmm_fmsg(devlink_fmsg_string_pair_put(fmsg, "reason",
						       why ? why : ""));
	if (!ret)
		ret = unetmm_fmsg(devlink_fmsg_u32_pair_put(fmsg, "state",
							    READ_ONCE(dev->state)));
	if (!ret)
		ret = unetmm_dump_registers(dev, fmsg);
	for (i = 0; !ret && i < UNETMM_NUM_DRIVER_COUNTERS; i++)
		ret = unetmm_fmsg(devlink_fmsg_u64_pair_put(fmsg,
					unetmm_driver_counter_names[i],
					atomic64_read(&dev->counters[i])));
	return ret;
}

/*
 * The caller holds the instance's lock; the removal of the card holds the device's lock
 * and waits for the former.
 */
static int unetmm_health_recover(struct devlink_health_reporter *reporter,
				 void *context, struct netlink_ext_ack *extack)
{
	struct unetmm_health *health = devlink_health_reporter_priv(reporter);
	int ret;

	/* Not without a request, see above. */
	if (context)
		return -EOPNOTSUPP;
	ret = pci_try_reset_function(health->dev->pdev);
	if (ret) {
		NL_SET_ERR_MSG(extack, "cannot reset the card now");
		return ret;
	}
	return unetmm_running(health->dev) ? 0 : -EIO;
}

static const struct devlink_health_reporter_ops unetmm_health_ops = {
	.name = "card",
	.recover = unetmm_health_recover,
	.dump = unetmm_health_dump,
};

static void unetmm_health_work(struct work_struct *work)
{
	struct unetmm_health *health = container_of(work, struct unetmm_health,
						    work);
	struct unetmm_dev *dev = health->dev;
	const char *why = READ_ONCE(dev->why);

	if (why)
		devlink_health_report(health->reporter, why, health);
	else if (unetmm_running(dev))
		devlink_health_reporter_state_update(health->reporter,
				DEVLINK_HEALTH_REPORTER_STATE_HEALTHY);
}

void unetmm_devlink_health(struct unetmm_dev *dev)
{
	struct unetmm_health *health = READ_ONCE(unetmm_card(dev)->health);

	if (health)
		queue_work(unetmm_wq, &health->work);
}

/* ---- Life ---------------------------------------------------------------- */

int unetmm_devlink_add(struct unetmm_dev *dev)
{
	struct unetmm_health *health;
	struct devlink *devlink;
	int ret;

	devlink = devlink_alloc(&unetmm_devlink_ops, sizeof(*health),
				&dev->pdev->dev);
	if (!devlink)
		return -ENOMEM;
	health = devlink_priv(devlink);
	health->dev = dev;
	INIT_WORK(&health->work, unetmm_health_work);
	ret = devlink_params_register(devlink, unetmm_devlink_params,
				      ARRAY_SIZE(unetmm_devlink_params));
	if (ret)
		goto free;
	health->reporter = unetmm_reporter_create(devlink, &unetmm_health_ops,
						  health);
	if (IS_ERR(health->reporter)) {
		ret = PTR_ERR(health->reporter);
		goto unregister_params;
	}
	devlink_register(devlink);
	WRITE_ONCE(unetmm_card(dev)->health, health);
	return 0;

unregister_params:
	devlink_params_unregister(devlink, unetmm_devlink_params,
				  ARRAY_SIZE(unetmm_devlink_params));
free:
	devlink_free(devlink);
	return ret;
}

/* The card is there still, and may fail: fail_work reports it, which is waited for. */
void unetmm_devlink_remove(struct unetmm_dev *dev)
{
	struct unetmm_health *health = unetmm_card(dev)->health;
	struct devlink *devlink = priv_to_devlink(health);

	WRITE_ONCE(unetmm_card(dev)->health, NULL);
	flush_work(&dev->fail_work);
	cancel_work_sync(&health->work);
	devlink_unregister(devlink);
	devlink_health_reporter_destroy(health->reporter);
	devlink_params_unregister(devlink, unetmm_devlink_params,
				  ARRAY_SIZE(unetmm_devlink_params));
	devlink_free(devlink);
}
