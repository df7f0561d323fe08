<?php

// A client of the API as an integrator might write it: without the SDK, with PHP's own http
// streams. It carries out the orders on its standard input, one JSON object a line and one after
// the other, and prints what became of each. The tests of coax certify run it.
//
//     php client.php [FAULT [STATE_FILE]]
//
// Without a fault it is correct. With one it makes that mistake, and no other.

declare(strict_types=1);

ini_set('display_errors', 'stderr');

require __DIR__ . '/call.php';

const FAULTS = [
    'body-serialised-twice' => 'BodySerialisedTwice',
    'floating-point' => 'FloatingPoint',
    'forgets-after-crash' => 'ForgetsAfterCrash',
    'no-retry-after-503' => 'NoRetryAfter503',
    'secret-in-log' => 'SecretInLog',
];

$fault = $argv[1] ?? '';
if ($fault !== '' && !isset(FAULTS[$fault])) {
    fwrite(STDERR, "unknown fault $fault\n");
    exit(2);
}
if ($fault === 'forgets-after-crash' && !isset($argv[2])) {
    fwrite(STDERR, "$fault needs a STATE_FILE\n");
    exit(2);
}
$class = FAULTS[$fault] ?? Call::class;
if ($fault !== '') {
    require __DIR__ . "/$fault.php";
}
while (($line = fgets(STDIN)) !== false) {
    $order = json_decode($line);
    // The body is sent as the text it came in as: decoded and encoded again, its numbers could change.
    if (!is_object($order) || !preg_match('/"body"\s*:\s*(\{(?:[^{}"]++|"(?:[^"\\\\]++|\\\\.)*+"|(?1))*+\})/s', $line, $found)) {
        fwrite(STDERR, "not an order\n");
        continue;
    }
    $call = new $class($order, $found[1], $argv[2] ?? '');
    fwrite(STDOUT, json_encode($call->carryOut(), JSON_THROW_ON_ERROR) . "\n");
}
