"""Programs that use the driver through other people's packages and know nothing of gpulend."""
