/* What a daemon tells the service manager that has started it (sd_notify(3), protocol in systemd.exec(5)). */
#ifndef KR_COMMON_SERVICE_MANAGER_H
#define KR_COMMON_SERVICE_MANAGER_H

/* MESSAGE: "READY=1", "STOPPING=1"...  Without a service manager nothing happens; an error is logged.  Any thread. */
void kr_service_manager_tell(const char *message);

#endif
