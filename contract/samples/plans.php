<?php

require 'sdk/php/autoload.php';

$client = new Coax\Client(getenv('COAX_BASE_URL'), getenv('COAX_API_KEY'), getenv('COAX_API_SECRET'), getenv('COAX_CA_CERT'));
$catalogue = $client->plans();
foreach ($catalogue->plans as $plan) {
    echo "$plan->id $plan->price\n";
}
