/* Simulated libdcmi.so: the public functions that hami_ascend.dcmi calls, over a folder of small text files.
 *
 * HAMI_DCMI_SIM names the folder. It has one folder for each chip, card<card_id>/device<device_id>, with one file for
 * each fact: die_id (five hexadecimal words), chip_name, logic_id, phy_id, health, memory_mib, memory_used_mib, hbm,
 * utilization, product_type, aicore. A file `error` holds a return code that every call about the chip gives. Each
 * vNPU is a file vnpu/<vdev_id> with two lines: its template, and whether a container uses it (0 or 1). The file is
 * made with O_EXCL and removed by unlink, so that all processes see the same vNPUs.
 *
 * HAMI_DCMI_SIM_EXIT=N ends the process at point N. Points are counted from 1: one before and one after the work of
 * each call that lists, creates or destroys vNPUs. Tests use it to kill the agent between any two steps.
 *
 * Declarations: dcmi_interface_api.h in component/ascend-common/devmanager/dcmi of Huawei's mind-cluster.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

enum {
    OK = 0,
    ERR_PARAMETER = -8001,
    ERR_INTERNAL = -8005,
    ERR_NO_DEVICE = -8008,
    ERR_OCCUPIED = -8020,
    ERR_UNSUPPORTED = -8255,
};
enum { VDEV_MNG = 52, VDEV_RESOURCE = 0, TOTAL_RESOURCE = 1, VDIE = 1 };
enum { MAX_VNPUS = 32, FIRST_VNPU = 100, VNPUS_PER_CHIP = 16, EXIT_STATUS = 86 };

struct dcmi_chip_info {
    unsigned char chip_type[32], chip_name[32], chip_ver[32];
    unsigned int aicore_cnt;
};
struct dcmi_chip_info_v2 {
    unsigned char chip_type[32], chip_name[32], chip_ver[32];
    unsigned int aicore_cnt;
    unsigned char npu_name[32];
};
struct dcmi_die_id {
    unsigned int soc_die[5];
};
struct dcmi_hbm_info {
    unsigned long long memory_size;
    unsigned int freq;
    unsigned long long memory_usage;
    int temp;
    unsigned int bandwith_util_rate;
};
struct dcmi_get_memory_info_stru {
    unsigned long long memory_size, memory_available;
    unsigned int freq;
    unsigned long hugepagesize, hugepages_total, hugepages_free;
    unsigned int utiliza;
    unsigned char reserve[60];
};
struct dcmi_base_resource {
    unsigned long long token, token_max, task_timeout;
    unsigned int vfg_id;
    unsigned char vip_mode, reserved[31];
};
struct dcmi_computing_resource {
    float aic, aiv;
    unsigned short dsa, rtsq, acsq, cdqm, c_core, ffts, sdma, pcie_dma;
    unsigned long long memory_size;
    unsigned int event_id, notify_id, stream_id, model_id;
    unsigned short topic_schedule_aicpu, host_ctrl_cpu, host_aicpu, device_aicpu, topic_ctrl_cpu_slot;
    unsigned int vdev_aicore_utilization;
    unsigned long long vdev_memory_total, vdev_memory_free;
    unsigned char reserved[12];
};
struct dcmi_media_resource {
    float jpegd, jpege, vpc, vdec, pngd, venc;
    unsigned char reserved[32];
};
struct dcmi_create_vdev_out {
    unsigned int vdev_id, pcie_bus, pcie_device, pcie_func, vfg_id;
    unsigned char reserved[32];
};
struct dcmi_create_vdev_res_stru {
    unsigned int vdev_id, vfg_id;
    char template_name[32];
    unsigned char reserved[64];
};
struct dcmi_vdev_query_info {
    char name[16];
    unsigned int status, is_container_used, vfid, vfg_id;
    unsigned long long container_id;
    struct dcmi_base_resource base;
    struct dcmi_computing_resource computing;
    struct dcmi_media_resource media;
};
struct dcmi_vdev_query_stru {
    unsigned int vdev_id;
    struct dcmi_vdev_query_info query_info;
};
struct dcmi_soc_total_resource {
    unsigned int vdev_num, vdev_id[MAX_VNPUS], vfg_num, vfg_bitmap;
    struct dcmi_base_resource base;
    struct dcmi_computing_resource computing;
    struct dcmi_media_resource media;
};

/* Ends the process if the test wants it to die here. */
static void exit_point(void) {
    static int passed;
    const char *wanted = getenv("HAMI_DCMI_SIM_EXIT");
    if (wanted != NULL && ++passed == atoi(wanted))
        _exit(EXIT_STATUS);
}

static void path_of(char *path, size_t size, int card, int device, const char *rest) {
    const char *root = getenv("HAMI_DCMI_SIM");
    snprintf(path, size, "%s/card%d/device%d/%s", root ? root : "/nonexistent", card, device, rest);
}

/* Reads a file into `text`, without the final newline. Returns 0, or -1 if there is no such file. */
static int read_file(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    size_t length = fread(text, 1, size - 1, file);
    fclose(file);
    while (length > 0 && text[length - 1] == '\n')
        length--;
    text[length] = '\0';
    return 0;
}

static int fact(int card, int device, const char *name, char *text, size_t size) {
    char path[4096];
    path_of(path, sizeof path, card, device, name);
    return read_file(path, text, size);
}

static long number(int card, int device, const char *name, long otherwise) {
    char text[64];
    return fact(card, device, name, text, sizeof text) == 0 ? strtol(text, NULL, 10) : otherwise;
}

/* What any call about this chip returns, before it does anything. */
static int state_of(int card, int device) {
    char path[4096];
    struct stat status;
    path_of(path, sizeof path, card, device, "");
    if (stat(path, &status) != 0)
        return ERR_NO_DEVICE;
    return (int)number(card, device, "error", OK);
}

API int dcmi_init(void) {
    struct stat status;
    const char *root = getenv("HAMI_DCMI_SIM");
    return root != NULL && stat(root, &status) == 0 ? OK : ERR_INTERNAL;
}

static int compare(const void *one, const void *other) { return *(const int *)one - *(const int *)other; }

API int dcmi_get_card_list(int *card_num, int *card_list, int list_len) {
    const char *root = getenv("HAMI_DCMI_SIM");
    DIR *folder = root ? opendir(root) : NULL;
    if (folder == NULL)
        return ERR_INTERNAL;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (count < list_len && sscanf(entry->d_name, "card%d", &card_list[count]) == 1)
            count++;
    closedir(folder);
    qsort(card_list, (size_t)count, sizeof *card_list, compare);
    *card_num = count;
    return OK;
}

API int dcmi_get_device_num_in_card(int card_id, int *device_num) {
    char path[4096];
    struct stat status;
    for (*device_num = 0;; ++*device_num) {
        path_of(path, sizeof path, card_id, *device_num, "");
        if (stat(path, &status) != 0)
            return *device_num ? OK : ERR_NO_DEVICE;
    }
}

API int dcmi_get_device_logic_id(int *device_logic_id, int card_id, int device_id) {
    int state = state_of(card_id, device_id);
    if (state == OK)
        *device_logic_id = (int)number(card_id, device_id, "logic_id", -1);
    return state;
}

API int dcmi_get_device_phyid_from_logicid(unsigned int logicid, unsigned int *phyid) {
    int count, devices, cards[64];
    if (dcmi_get_card_list(&count, cards, 64) != OK)
        return ERR_INTERNAL;
    for (int i = 0; i < count; i++)
        for (int device = 0; dcmi_get_device_num_in_card(cards[i], &devices) == OK && device < devices; device++)
            if (number(cards[i], device, "logic_id", -1) == (long)logicid) {
                *phyid = (unsigned int)number(cards[i], device, "phy_id", 0);
                return OK;
            }
    return ERR_NO_DEVICE;
}

API int dcmi_get_device_die_v2(int card_id, int device_id, int input_type, struct dcmi_die_id *die_id) {
    char text[64] = "";
    int state = state_of(card_id, device_id);
    if (state != OK)
        return state;
    if (input_type != VDIE)
        return ERR_PARAMETER;
    fact(card_id, device_id, "die_id", text, sizeof text);
    unsigned int *word = die_id->soc_die;
    int found = sscanf(text, "%x-%x-%x-%x-%x", word, word + 1, word + 2, word + 3, word + 4);
    return found == 5 ? OK : ERR_INTERNAL;
}

API int dcmi_get_device_chip_info(int card_id, int device_id, struct dcmi_chip_info *chip_info) {
    int state = state_of(card_id, device_id);
    if (state != OK)
        return state;
    memset(chip_info, 0, sizeof *chip_info);
    strcpy((char *)chip_info->chip_type, "Ascend");
    fact(card_id, device_id, "chip_name", (char *)chip_info->chip_name, sizeof chip_info->chip_name);
    chip_info->aicore_cnt = (unsigned int)number(card_id, device_id, "aicore", 0);
    return OK;
}

API int dcmi_get_device_chip_info_v2(int card_id, int device_id, struct dcmi_chip_info_v2 *chip_info) {
    memset(chip_info, 0, sizeof *chip_info);
    return dcmi_get_device_chip_info(card_id, device_id, (struct dcmi_chip_info *)chip_info);
}

API int dcmi_get_device_health(int card_id, int device_id, unsigned int *health) {
    int state = state_of(card_id, device_id);
    if (state == OK)
        *health = (unsigned int)number(card_id, device_id, "health", 0);
    return state;
}

API int dcmi_get_device_hbm_info(int card_id, int device_id, struct dcmi_hbm_info *hbm_info) {
    int state = state_of(card_id, device_id);
    if (state != OK)
        return state;
    memset(hbm_info, 0, sizeof *hbm_info);
    if (number(card_id, device_id, "hbm", 1) == 0)
        return ERR_UNSUPPORTED;
    hbm_info->memory_size = (unsigned long long)number(card_id, device_id, "memory_mib", 0);
    hbm_info->memory_usage = (unsigned long long)number(card_id, device_id, "memory_used_mib", 0);
    return OK;
}

API int dcmi_get_device_memory_info_v3(int card_id, int device_id, struct dcmi_get_memory_info_stru *memory_info) {
    int state = state_of(card_id, device_id);
    if (state != OK)
        return state;
    memset(memory_info, 0, sizeof *memory_info);
    memory_info->memory_size = (unsigned long long)number(card_id, device_id, "memory_mib", 0);
    memory_info->memory_available =
        memory_info->memory_size - (unsigned long long)number(card_id, device_id, "memory_used_mib", 0);
    return OK;
}

API int dcmi_get_device_utilization_rate(int card_id, int device_id, int input_type, unsigned int *utilization_rate) {
    int state = state_of(card_id, device_id);
    (void)input_type;
    if (state == OK)
        *utilization_rate = (unsigned int)number(card_id, device_id, "utilization", 0);
    return state;
}

API int dcmi_get_product_type(int card_id, int device_id, char *product_type_str, int buf_size) {
    int state = state_of(card_id, device_id);
    if (state != OK)
        return state;
    return fact(card_id, device_id, "product_type", product_type_str, (size_t)buf_size) == 0 ? OK : ERR_UNSUPPORTED;
}

/* Ids of a chip's vNPUs. Returns their number, or -1. */
static int list_vnpus(int card, int device, unsigned int *ids) {
    char path[4096];
    int count = 0;
    path_of(path, sizeof path, card, device, "vnpu");
    DIR *folder = opendir(path);
    if (folder == NULL)
        return -1;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (count < MAX_VNPUS && sscanf(entry->d_name, "%u", &ids[count]) == 1)
            count++;
    closedir(folder);
    qsort(ids, (size_t)count, sizeof *ids, compare);
    return count;
}

static int read_vnpu(int card, int device, unsigned int id, char *template_name, unsigned int *used) {
    char path[4096], text[128], rest[32];
    snprintf(rest, sizeof rest, "vnpu/%u", id);
    path_of(path, sizeof path, card, device, rest);
    if (read_file(path, text, sizeof text) != 0 || sscanf(text, "%31s %u", template_name, used) != 2)
        return ERR_NO_DEVICE;
    return OK;
}

/* AI cores of a template: the number after "vir". */
static int cores_of(const char *template_name) {
    int cores = 0;
    return sscanf(template_name, "vir%d", &cores) == 1 && cores > 0 ? cores : -1;
}

API int dcmi_get_device_info(int card_id, int device_id, int main_cmd, unsigned int sub_cmd, void *buf,
                             unsigned int *size) {
    int state = state_of(card_id, device_id);
    if (state != OK)
        return state;
    if (main_cmd != VDEV_MNG)
        return ERR_UNSUPPORTED;
    exit_point();
    if (sub_cmd == TOTAL_RESOURCE && *size == sizeof(struct dcmi_soc_total_resource)) {
        struct dcmi_soc_total_resource *total = buf;
        memset(total, 0, sizeof *total);
        int count = list_vnpus(card_id, device_id, total->vdev_id);
        if (count < 0)
            return ERR_UNSUPPORTED;
        total->vdev_num = (unsigned int)count;
        total->computing.aic = (float)number(card_id, device_id, "aicore", 0);
    } else if (sub_cmd == VDEV_RESOURCE && *size == sizeof(struct dcmi_vdev_query_stru)) {
        struct dcmi_vdev_query_stru *query = buf;
        char name[32];
        if (read_vnpu(card_id, device_id, query->vdev_id, name, &query->query_info.is_container_used) != OK)
            return ERR_NO_DEVICE;
        memcpy(query->query_info.name, name, sizeof query->query_info.name - 1);
        query->query_info.name[sizeof query->query_info.name - 1] = '\0';
    } else {
        return ERR_PARAMETER;
    }
    exit_point();
    return OK;
}

API int dcmi_create_vdevice(int card_id, int device_id, struct dcmi_create_vdev_res_stru *vdev,
                            struct dcmi_create_vdev_out *out) {
    char path[4096], rest[32], name[32];
    unsigned int ids[MAX_VNPUS], used, phy_id;
    int state = state_of(card_id, device_id);
    if (state != OK)
        return state;
    exit_point();
    phy_id = (unsigned int)number(card_id, device_id, "phy_id", 0);
    unsigned int first = FIRST_VNPU + phy_id * VNPUS_PER_CHIP, id = vdev->vdev_id;
    int cores = cores_of(vdev->template_name), count = list_vnpus(card_id, device_id, ids), taken = 0;
    if (count < 0)
        return ERR_UNSUPPORTED;
    if (cores < 0 || (id != 0xFFFFFFFF && (id < first || id >= first + VNPUS_PER_CHIP)))
        return ERR_PARAMETER;
    for (int i = 0; i < count; i++)
        if (read_vnpu(card_id, device_id, ids[i], name, &used) == OK)
            taken += cores_of(name);
    if (taken + cores > number(card_id, device_id, "aicore", 0))
        return ERR_OCCUPIED;
    int fd = -1;
    for (unsigned int next = id == 0xFFFFFFFF ? first : id; fd < 0 && next < first + VNPUS_PER_CHIP; next++) {
        snprintf(rest, sizeof rest, "vnpu/%u", next);
        path_of(path, sizeof path, card_id, device_id, rest);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0 && (id != 0xFFFFFFFF || errno != EEXIST))
            return errno == EEXIST ? ERR_OCCUPIED : ERR_INTERNAL;
        id = fd < 0 ? id : next;
    }
    if (fd < 0)
        return ERR_OCCUPIED;
    dprintf(fd, "%.31s\n0\n", vdev->template_name);
    close(fd);
    memset(out, 0, sizeof *out);
    out->vdev_id = id;
    exit_point();
    return OK;
}

API int dcmi_set_destroy_vdevice(int card_id, int device_id, unsigned int vdevid) {
    char path[4096], rest[32], name[32];
    unsigned int used;
    int state = state_of(card_id, device_id);
    if (state != OK)
        return state;
    exit_point();
    if (read_vnpu(card_id, device_id, vdevid, name, &used) != OK)
        return ERR_NO_DEVICE;
    if (used)
        return ERR_OCCUPIED;
    snprintf(rest, sizeof rest, "vnpu/%u", vdevid);
    path_of(path, sizeof path, card_id, device_id, rest);
    if (unlink(path) != 0)
        return ERR_INTERNAL;
    exit_point();
    return OK;
}
