<?php

require 'sdk/php/autoload.php';

$client = new Coax\Client(getenv('COAX_BASE_URL'), getenv('COAX_API_KEY'), getenv('COAX_API_SECRET'), getenv('COAX_CA_CERT'));
$balance = $client->balance();
echo "$balance->wallet_balance $balance->currency\n";
