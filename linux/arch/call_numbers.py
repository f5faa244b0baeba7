# SPDX-License-Identifier: GPL-2.0-or-later
"""The numbers of system calls, by architecture; base/syscall_numbers.py has x86-64's.

generic: the table of architectures that came to Linux later (arm64, riscv64).  i386 and
armhf: calls with users, files and times of the most bits.  mips64: n64's.

Kernel: include/uapi/asm-generic/unistd.h, syscall*.tbl of arch/*
"""

from __future__ import annotations

from kpfs.base import syscall_numbers as nr

_TABLE = """
call                    generic i386 armhf s390x ppc64 mips64
READ                         63    3     3     3     3      0
WRITE                        64    4     4     4     4      1
OPEN                          -    5     5     5     5      2
CLOSE                        57    6     6     6     6      3
STAT                          -  195   195   106   106      4
FSTAT                        80  197   197   108   108      5
LSTAT                         -  196   196   107   107      6
POLL                          -  168   168   168   167      7
LSEEK                        62   19    19    19    19      8
MMAP                        222  192   192    90    90      9
MUNMAP                      215   91    91    91    91     11
RT_SIGACTION                134  174   174   174   173     13
IOCTL                        29   54    54    54    54     15
PREAD64                      67  180   180   180   179     16
PWRITE64                     68  181   181   181   180     17
READV                        65  145   145   145   145     18
WRITEV                       66  146   146   146   146     19
ACCESS                        -   33    33    33    33     20
PIPE                          -   42    42    42    42     21
SELECT                        -  142   142   142   142     22
SCHED_YIELD                 124  158   158   158   158     23
DUP                          23   41    41    41    41     31
DUP2                          -   63    63    63    63     32
NANOSLEEP                   101  162   162   162   162     34
GETITIMER                   102  105   105   105   105     35
GETPID                      172   20    20    20    20     38
SOCKET                      198  359   281   359   326     40
SENDTO                      206  369   290   369   335     43
RECVFROM                    207  371   292   371   337     44
SHUTDOWN                    210  373   293   373   338     47
SOCKETPAIR                  199  360   288   360   333     52
EXECVE                      221   11    11    11    11     57
EXIT                         93    1     1     1     1     58
WAIT4                       260  114   114   114   114     59
KILL                        129   37    37    37    37     60
UNAME                       160  122   122   122   122     61
FCNTL                        25  221   221    55    55     70
FLOCK                        32  143   143   143   143     71
FSYNC                        82  118   118   118   118     72
FDATASYNC                    83  148   148   148   148     73
TRUNCATE                     45  193   193    92    92     74
FTRUNCATE                    46  194   194    93    93     75
GETDENTS                      -  141   141   141   141     76
GETCWD                       17  183   183   183   182     77
CHDIR                        49   12    12    12    12     78
FCHDIR                       50  133   133   133   133     79
RENAME                        -   38    38    38    38     80
MKDIR                         -   39    39    39    39     81
RMDIR                         -   40    40    40    40     82
CREAT                         -    8     8     8     8     83
LINK                          -    9     9     9     9     84
UNLINK                        -   10    10    10    10     85
SYMLINK                       -   83    83    83    83     86
READLINK                      -   85    85    85    85     87
CHMOD                         -   15    15    15    15     88
FCHMOD                       52   94    94    94    94     89
CHOWN                         -  212   212   212   181     90
FCHOWN                       55  207   207   207    95     91
LCHOWN                        -  198   198   198    16     92
UMASK                       166   60    60    60    60     93
GETTIMEOFDAY                169   78    78    78    78     94
GETRLIMIT                     -  191   191   191    76     95
GETRUSAGE                   165   77    77    77    77     96
SYSINFO                     179  116   116   116   116     97
TIMES                       153   43    43    43    43     98
GETUID                      174  199   199   199    24    100
SYSLOG                      116  103   103   103   103    101
GETGID                      176  200   200   200    47    102
GETEUID                     175  201   201   201    49    105
GETEGID                     177  202   202   202    50    106
SETPGID                     154   57    57    57    57    107
GETPPID                     173   64    64    64    64    108
GETPGRP                       -   65    65    65    65    109
SETSID                      157   66    66    66    66    110
GETGROUPS                   158  205   205   205    80    113
SETGROUPS                   159  206   206   206    81    114
GETRESUID                   148  209   209   209   165    116
GETRESGID                   150  211   211   211   170    118
GETPGID                     155  132   132   132   132    119
GETSID                      156  147   147   147   147    122
RT_SIGTIMEDWAIT             137  421   421   177   176    126
STATFS                       43  268   266    99    99    134
FSTATFS                      44  269   267   100   100    135
GETPRIORITY                 141   96    96    96    96    137
SETPRIORITY                 140   97    97    97    97    138
SCHED_GETPARAM              121  155   155   155   155    140
SCHED_SETSCHEDULER          119  156   156   156   156    141
SCHED_GETSCHEDULER          120  157   157   157   157    142
SCHED_GET_PRIORITY_MAX      125  159   159   159   159    143
SCHED_GET_PRIORITY_MIN      126  160   160   160   160    144
SCHED_RR_GET_INTERVAL       127  423   423   161   161    145
PRCTL                       167  172   172   172   171    153
CHROOT                       51   61    61    61    61    156
SYNC                         81   36    36    36    36    157
MOUNT                        40   21    21    21    21    160
SETHOSTNAME                 161   74    74    74    74    165
INIT_MODULE                 105  128   128   128   128    168
DELETE_MODULE               106  129   129   129   129    169
GETTID                      178  224   224   236   207    178
READAHEAD                   213  225   225   222   191    179
GETXATTR                      8  229   229   227   212    183
LGETXATTR                     9  230   230   228   213    184
FGETXATTR                    10  231   231   229   214    185
LISTXATTR                    11  232   232   230   215    186
LLISTXATTR                   12  233   233   231   216    187
FLISTXATTR                   13  234   234   232   217    188
SCHED_SETAFFINITY           122  241   241   239   222    195
SCHED_GETAFFINITY           123  242   242   240   223    196
EPOLL_CREATE                  -  254   250   249   236    207
GETDENTS64                   61  220   217   220   202    308
FADVISE64                   223  272   270   253   233    215
CLOCK_SETTIME               112  404   404   259   245    221
CLOCK_GETTIME               113  403   403   260   246    222
CLOCK_GETRES                114  406   406   261   247    223
CLOCK_NANOSLEEP             115  407   407   262   248    224
EXIT_GROUP                   94  252   248   248   234    205
EPOLL_CTL                    21  255   251   250   237    208
TGKILL                      131  270   268   241   250    225
INOTIFY_INIT                  -  291   316   284   275    243
OPENAT                       56  295   322   288   286    247
MKDIRAT                      34  296   323   289   287    248
MKNODAT                      33  297   324   290   288    249
FCHOWNAT                     54  298   325   291   289    250
NEWFSTATAT                   79  300   327   293   291    252
UNLINKAT                     35  301   328   294   292    253
RENAMEAT                      -  302   329   295   293    254
LINKAT                       37  303   330   296   294    255
SYMLINKAT                    36  304   331   297   295    256
READLINKAT                   78  305   332   298   296    257
FCHMODAT                     53  306   333   299   297    258
FACCESSAT                    48  307   334   300   298    259
PSELECT6                     72  413   413   301   280    260
PPOLL                        73  414   414   302   281    261
SPLICE                       76  313   340   306   283    263
SYNC_FILE_RANGE              84  314   341   307   308    264
UTIMENSAT                    88  412   412   315   304    275
EPOLL_PWAIT                  22  319   346   312   303    272
TIMERFD_CREATE               85  322   350   319   306    280
EVENTFD                       -  323   351   318   307    278
EVENTFD2                     19  328   356   323   314    284
EPOLL_CREATE1                20  329   357   327   315    285
DUP3                         24  330   358   326   316    286
PIPE2                        59  331   359   325   317    287
INOTIFY_INIT1                26  332   360   324   318    288
PREADV                       69  333   361   328   320    289
PWRITEV                      70  334   362   329   321    290
PRLIMIT64                   261  340   369   334   325    297
SYNCFS                      267  344   373   338   348    301
GETCPU                      168  318   345   311   302    271
KCMP                        272  349   378   343   354    306
FINIT_MODULE                273  350   379   344   353    307
SCHED_GETATTR               275  352   381   346   356    310
RENAMEAT2                   276  353   382   347   357    311
GETRANDOM                   278  355   384   349   359    313
MEMFD_CREATE                279  356   385   350   360    314
BPF                         280  357   386   351   361    315
EXECVEAT                    281  358   387   354   362    316
PREADV2                     286  378   392   376   380    321
PWRITEV2                    287  379   393   377   381    322
STATX                       291  383   397   379   383    326
"""
# calls that all architectures number alike, from their first one on
_ALIKE = (
    *(nr.FSCONFIG, nr.FSPICK, nr.PIDFD_OPEN, nr.CLONE3, nr.CLOSE_RANGE, nr.OPENAT2),
    *(nr.PIDFD_GETFD, nr.FACCESSAT2),
)
_FIRST = {"mips64": 5000}  # the number of the first call, which others have at 0
_HEAD, *_ROWS = [line.split() for line in _TABLE.strip().splitlines()]


def call_numbers(table: str) -> dict[int, int]:
    """Return the numbers of calls in a table, by x86-64's."""
    column, first = _HEAD.index(table), _FIRST.get(table, 0)
    numbers = {
        getattr(nr, row[0]): first + int(row[column])
        for row in _ROWS
        if row[column].isdecimal()
    }
    return numbers | {number: first + number for number in _ALIKE}
