include $(sort $(wildcard $(BR2_EXTERNAL_EDGEPROF_PATH)/package/*/*.mk))
