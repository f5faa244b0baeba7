// SPDX-License-Identifier: GPL-2.0-or-later
/* Fill the root file system at boot. */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/namei.h>
#include <linux/string.h>

static int __init init_mkdir(const char *pathname, umode_t mode)
{
	struct path path;
	struct filename *name = getname_kernel(pathname);
	struct dentry *dentry = filename_create(AT_FDCWD, name, &path, LOOKUP_DIRECTORY);
	int error = PTR_ERR(dentry);

	if (!IS_ERR(dentry)) {
		error = vfs_mkdir(d_inode(path.dentry), dentry, mode);
		done_path_create(&path, dentry);
	}
	putname(name);
	return error;
}

static int __init init_file(const char *pathname, umode_t mode, const char *text)
{
	struct file *file = filp_open(pathname, O_WRONLY | O_CREAT, mode);
	loff_t pos = 0;
	ssize_t n;

	if (IS_ERR(file))
		return PTR_ERR(file);
	n = kernel_write(file, text, strlen(text), &pos);
	filp_close(file, NULL);
	return n < 0 ? n : 0;
}

static int __init populate_rootfs(void)
{
	static const char *const dirs[] = {
		"/bin",
		"/dev",
		"/etc",
		"/proc",
		"/sys",
		"/sys/class",
		"/sys/kernel",
		"/sys/kernel/debug",
		"/sys/kernel/tracing",
		"/tmp",
		"/usr",
		"/usr/bin",
		"/var",
		"/var/log",
		"/machine",
		"/root",
		"/home",
	};
	static const char *const programs[] = {
		"/bin/sh", "/bin/cat", "/bin/ls", "/bin/true", "/usr/bin/logger", "/usr/bin/date",
	};
	int i, err = 0;

	for (i = 0; i < (int)ARRAY_SIZE(dirs) && !err; i++)
		err = init_mkdir(dirs[i], strcmp(dirs[i], "/tmp") ? 0755 : 01777);
	for (i = 0; i < (int)ARRAY_SIZE(programs) && !err; i++)
		err = init_file(programs[i], 0755, "#!kpfs\n");
	err = err ?: init_file("/etc/passwd", 0644, "root:x:0:0:root:/root:/bin/sh\n");
	err = err ?: init_file("/etc/hostname", 0644, "kpfs\n");
	err = err ?: init_file("/var/log/messages", 0644, "");
	return err;
}
core_initcall(populate_rootfs);
