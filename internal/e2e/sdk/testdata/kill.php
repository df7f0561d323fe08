<?php

// Runs a program and kills it after a number of executed statements:
// kill.php STATEMENTS PROGRAM ARGUMENTS. The program is changed so that PHP ticks
// after each of its statements.

declare(strict_types=1);

[, $left, $program] = $argv;
$left = (int) $left;
$argv = array_slice($argv, 2);
$argc = count($argv);
$_SERVER['argv'] = $argv;
$_SERVER['argc'] = $argc;

register_tick_function(function () use (&$left): void {
    if (--$left < 0) {
        posix_kill(getmypid(), SIGKILL);
    }
});

$folder = dirname((string) realpath($program));
$source = (string) file_get_contents($program);
$source = preg_replace('~declare\(strict_types=1\);~', 'declare(strict_types=1); declare(ticks=1);', $source, 1, $found);
if ($found !== 1) {
    fwrite(STDERR, "$program has no declare(strict_types=1)\n");
    exit(2);
}
$source = str_replace('__DIR__', var_export($folder, true), $source);
$copy = tempnam(sys_get_temp_dir(), 'coax-kill-');
file_put_contents($copy, $source);
try {
    require $copy;
} finally {
    unlink($copy);
}
